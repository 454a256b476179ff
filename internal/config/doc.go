// Package config reads the settings of the daemon: defaults, a YAML file, TIDEMARK_ variables and flags, in that order.
//
// It owns the list of settings with their defaults and meaning, and says where each effective value came from. It refuses to know
// what a setting leads to. It may import the error kinds of storage and nothing else of this program. Its one invariant: what
// it does not understand is an error with its line, or, in the environment, a warning; nothing is ignored in silence.
package config
