package config

import (
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Setting is one setting that may be given in the file, in the environment or by a flag.
type Setting struct {
	Key     string // as in the file: "http.address"
	Type    string // text, secret, yes or no, number, duration, size or list
	Default string // text of the default; "" for none
	Doc     string
}

// EnvPrefix begins the name of every variable.
const EnvPrefix = "TIDEMARK_"

// Env is the name of the setting's variable: "TIDEMARK_HTTP_ADDRESS".
func (s Setting) Env() string {
	return EnvPrefix + strings.ToUpper(strings.ReplaceAll(s.Key, ".", "_"))
}

// Flag is the name of the setting's flag, without dashes in front: "http-address".
func (s Setting) Flag() string { return strings.NewReplacer(".", "-", "_", "-").Replace(s.Key) }

// Settings lists the settings of the whole process, in the order of the file.
func Settings() []Setting {
	d := Default()
	return settings(reflect.ValueOf(d), "")
}

// TableSettings lists the settings of one table, their keys relative to it.
func TableSettings() []Setting { return settings(reflect.ValueOf(Table{}), "") }

func settings(v reflect.Value, prefix string) []Setting {
	var out []Setting
	for f := range fields(v.Type()) {
		x := v.FieldByIndex(f.Index)
		key := prefix + f.Tag.Get("key")
		switch kind := kindOf(f.Type); {
		case kind != "":
			out = append(out, Setting{Key: key, Type: kind, Default: text(x), Doc: f.Tag.Get("doc")})
		case f.Type.Kind() == reflect.Struct:
			out = append(out, settings(x, key+".")...)
		}
	}
	return out
}

func fields(t reflect.Type) func(yield func(reflect.StructField) bool) {
	return func(yield func(reflect.StructField) bool) {
		for i := range t.NumField() {
			if !yield(t.Field(i)) {
				return
			}
		}
	}
}

// kindOf names the type of a leaf; "" for what holds others.
func kindOf(t reflect.Type) string {
	switch t {
	case reflect.TypeFor[time.Duration]():
		return "duration"
	case reflect.TypeFor[Size]():
		return "size"
	case reflect.TypeFor[Secret]():
		return "secret"
	case reflect.TypeFor[[]string]():
		return "list"
	}
	switch t.Kind() {
	case reflect.String:
		return "text"
	case reflect.Bool:
		return "yes or no"
	case reflect.Int:
		return "number"
	}
	return ""
}

// text is a leaf as it would be written; a default that is nothing is "".
func text(v reflect.Value) string {
	switch x := v.Interface().(type) {
	case time.Duration:
		if x == 0 {
			return ""
		}
		return duration(x)
	case Size:
		if x == 0 {
			return ""
		}
		return x.String()
	case []string:
		return strings.Join(x, ",")
	case int:
		if x == 0 {
			return ""
		}
		return strconv.Itoa(x)
	default:
		return fmt.Sprint(x)
	}
}

// duration writes a duration without the zeros that time.Duration adds.
func duration(d time.Duration) string {
	s := d.String()
	if strings.HasSuffix(s, "m0s") {
		s = strings.TrimSuffix(s, "0s")
	}
	if strings.HasSuffix(s, "h0m") {
		s = strings.TrimSuffix(s, "0m")
	}
	return s
}

// parse reads the text of a leaf of a type.
func parse(t reflect.Type, s string) (any, error) {
	switch kindOf(t) {
	case "text":
		return s, nil
	case "secret":
		return Secret(s), nil
	case "yes or no":
		b, err := strconv.ParseBool(s)
		if err != nil || !slices.Contains([]string{"true", "false"}, strings.ToLower(s)) {
			return nil, fmt.Errorf("%q is neither true nor false", s)
		}
		return b, nil
	case "number":
		n, err := strconv.Atoi(s)
		if err != nil {
			return nil, fmt.Errorf("%q is no whole number", s)
		}
		return n, nil
	case "duration":
		d, err := time.ParseDuration(s)
		if err != nil {
			return nil, fmt.Errorf("%q is no duration: write a number with a unit, as in 500ms, 10s, 5m or 1h", s)
		}
		return d, nil
	case "size":
		return ParseSize(s)
	case "list":
		var out []string
		for _, part := range strings.Split(s, ",") {
			if part = strings.TrimSpace(part); part != "" {
				out = append(out, part)
			}
		}
		return out, nil
	}
	return nil, fmt.Errorf("cannot be given as a text")
}

// field returns the leaf of a key and its type.
func field(v reflect.Value, key string) (reflect.Value, bool) {
	head, rest, more := strings.Cut(key, ".")
	for f := range fields(v.Type()) {
		if f.Tag.Get("key") != head {
			continue
		}
		x := v.FieldByIndex(f.Index)
		if !more {
			return x, kindOf(f.Type) != ""
		}
		if f.Type.Kind() != reflect.Struct {
			return reflect.Value{}, false
		}
		return field(x, rest)
	}
	return reflect.Value{}, false
}
