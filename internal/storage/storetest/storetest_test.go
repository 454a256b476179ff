package storetest_test

import (
	"testing"

	"tidemark/internal/storage"
	"tidemark/internal/storage/fault"
	"tidemark/internal/storage/file"
	"tidemark/internal/storage/mem"
	"tidemark/internal/storage/storetest"
)

func openFile(t *testing.T) storage.Store {
	st, err := file.New(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	return st
}

func TestFile(t *testing.T) { t.Parallel(); storetest.Run(t, openFile) }

func TestMem(t *testing.T) {
	t.Parallel()
	storetest.Run(t, func(*testing.T) storage.Store { return mem.New("t") })
}

func TestLayers(t *testing.T) {
	t.Parallel()
	storetest.Run(t, func(t *testing.T) storage.Store {
		all := storage.NewGuard(openFile(t), func(string) bool { return true })
		return fault.New(all, fault.Config{})
	})
}
