package main

import (
	"cmp"
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"

	"tidemark/internal/vector/kernel"
)

// commands returns the commands of the program in the order in which help shows them.
func (a *app) commands() []*cobra.Command {
	return []*cobra.Command{
		a.demoCommand(), a.indexCommand(), a.syncCommand(), a.followCommand(), a.statusCommand(), a.markersCommand(), a.traceCommand(), a.waitCommand(),
		a.searchCommand(), a.verifyCommand(), a.reconcileCommand(), a.replayCommand(), a.proveCommand(),
		a.pauseCommand(), a.resumeCommand(), a.retryCommand(), a.skipCommand(), a.configCommand(), a.inspectCommand(), a.versionCommand(),
	}
}

// versionInfo is what the build says about itself.
type versionInfo struct {
	Version  string `json:"version"`
	Revision string `json:"revision,omitempty"`
	Modified bool   `json:"modified,omitempty"`
	Go       string `json:"go"`
	Platform string `json:"platform"`
	Kernels  string `json:"kernels"` // the form of the vector engine's loops: avx512, avx2 or portable
}

// stamped is the version that a release was built with: make release VERSION=v1.2.3.
var stamped string

func buildVersion() versionInfo {
	v := versionInfo{Version: "unknown", Go: runtime.Version(), Platform: runtime.GOOS + "/" + runtime.GOARCH, Kernels: kernel.Form()}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return v
	}
	v.Version = cmp.Or(stamped, info.Main.Version)
	for _, s := range info.Settings {
		switch s.Key {
		case "vcs.revision":
			v.Revision = s.Value
		case "vcs.modified":
			v.Modified = s.Value == "true"
		}
	}
	return v
}

func (a *app) versionCommand() *cobra.Command {
	return &cobra.Command{
		Use:     "version",
		Short:   "Print the version",
		Example: "  tidemark version --json",
		Args:    cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			v := buildVersion()
			if a.json {
				return a.object(v)
			}
			revision := v.Revision
			if v.Modified {
				revision += " (modified)"
			}
			a.say("tidemark %s", v.Version)
			if revision != "" {
				a.say("revision %s", revision)
			}
			a.say("%s %s, %s kernels", v.Go, v.Platform, v.Kernels)
			return nil
		},
	}
}
