package config

import (
	"reflect"
	"strconv"
)

// Effective is one value that is in effect.
type Effective struct {
	Key    string `json:"key"`
	Value  string `json:"value"` // a secret's is masked
	Origin string `json:"origin"`
}

// Effective lists the values in effect, in the order of the file: the settings of the process, then those of each table that are given.
func (l *Loaded) Effective() []Effective {
	var out []Effective
	for _, s := range Settings() {
		x, _ := field(reflect.ValueOf(&l.Config).Elem(), s.Key)
		out = append(out, Effective{s.Key, text(x), l.Origin[s.Key]})
	}
	for i := range l.Tables {
		for _, s := range TableSettings() {
			x, _ := field(reflect.ValueOf(&l.Tables[i]).Elem(), s.Key)
			if value := text(x); value != "" {
				out = append(out, Effective{"tables[" + strconv.Itoa(i) + "]." + s.Key, value, l.tableOrigin(i, s.Key)})
			}
		}
	}
	return out
}

// Differ names the settings of the process, which are all but the tables, that two configurations do not share.
func Differ(a, b *Config) []string {
	var out []string
	for _, s := range Settings() {
		x, _ := field(reflect.ValueOf(a).Elem(), s.Key)
		y, _ := field(reflect.ValueOf(b).Elem(), s.Key)
		if text(x) != text(y) || !reflect.DeepEqual(x.Interface(), y.Interface()) && text(x) != "" { // a secret's text is its mask; no list is an empty one
			out = append(out, s.Key)
		}
	}
	return out
}
