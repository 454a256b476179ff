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
	raw := func(c *Config, key string) string {
		x, _ := field(reflect.ValueOf(c).Elem(), key)
		if secret, is := x.Interface().(Secret); is {
			return secret.Reveal()
		}
		return text(x)
	}
	var out []string
	for _, s := range Settings() {
		if raw(a, s.Key) != raw(b, s.Key) {
			out = append(out, s.Key)
		}
	}
	return out
}
