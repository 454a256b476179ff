package mdt

import (
	"slices"
	"strings"
	"unicode/utf8"
)

// Copies are the record keys that an index knows to live more than once in its table, as of what the index incorporates (design, decision 17). A
// commit that touches one of them has its other copies read again.
type Copies struct {
	// Keys ascend by key.
	Keys []CopiedKey `json:"keys,omitempty"`
	// More says that there are further ones, which were not kept: any key may be one. It stays until the index is compared as a whole.
	More bool `json:"more,omitempty"`
}

// CopiedKey is a record key and where its copies are.
type CopiedKey struct {
	Key string `json:"key"`
	// Rows counts its live rows, indexable or not. 1: there are no others, but the record index does not name this one.
	Rows int64 `json:"rows"`
	// Groups hold them, that of the row written last, which is the key's row, first.
	Groups []CopiedIn `json:"groups"`
}

// CopiedIn is a file group of the data table.
type CopiedIn struct {
	Partition string `json:"partition"`
	FileID    string `json:"fileId"`
}

// Bounds of Copies: the state object is read by every command and written with every renewal of the lease.
const (
	// MaxCopiedKeys is how many keys are kept.
	MaxCopiedKeys = 1024
	// MaxCopiedBytes is how many bytes their keys and places may take, as texts.
	MaxCopiedBytes = 256 << 10
)

// NewCopies returns what is kept of keys with copies, in any order: the first ones by key within the bounds. It is nil if there
// are none. A key that is not UTF-8 cannot be kept, since the state is text. keys is sorted.
func NewCopies(keys []CopiedKey, more bool) *Copies {
	slices.SortFunc(keys, func(a, b CopiedKey) int { return strings.Compare(a.Key, b.Key) })
	c, size := &Copies{More: more}, 0
	for _, k := range keys {
		n := len(k.Key)
		for _, g := range k.Groups {
			n += len(g.Partition) + len(g.FileID)
		}
		if !utf8.ValidString(k.Key) || len(c.Keys) == MaxCopiedKeys || size+n > MaxCopiedBytes {
			c.More = true
			continue
		}
		size += n
		c.Keys = append(c.Keys, k)
	}
	if len(c.Keys) == 0 && !c.More {
		return nil
	}
	return c
}

// Find returns what is kept of a key; ok is false if it is not among them. c may be nil.
func (c *Copies) Find(key string) (k CopiedKey, ok bool) {
	if c == nil {
		return CopiedKey{}, false
	}
	i, ok := slices.BinarySearchFunc(c.Keys, key, func(k CopiedKey, key string) int { return strings.Compare(k.Key, key) })
	if !ok {
		return CopiedKey{}, false
	}
	return c.Keys[i], true
}

// Duplicates counts the keys kept that live more than once. c may be nil.
func (c *Copies) Duplicates() int64 {
	n := int64(0)
	if c != nil {
		for _, k := range c.Keys {
			if k.Rows > 1 {
				n++
			}
		}
	}
	return n
}
