//go:build !purego

package simd

import (
	"os"

	"golang.org/x/sys/cpu"
)

// fast is set once and never changes.
var fast = cpu.X86.HasAVX2 && cpu.X86.HasFMA && os.Getenv("TIDEMARK_KERNELS") != "portable"
