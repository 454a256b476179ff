package mdt

import (
	"reflect"
	"time"
)

// Clone returns a deep copy.
func (s *State) Clone() *State {
	c := deepCopy(reflect.ValueOf(s)).Interface().(*State)
	if c.Indexes == nil {
		c.Indexes = map[string]*Index{}
	}
	return c
}

// deepCopy copies what State is made of: pointers, structs with exported fields, slices, maps, values. What is nil stays so, and what is
// empty stays empty.
func deepCopy(v reflect.Value) reflect.Value {
	switch v.Kind() {
	case reflect.Pointer:
		if v.IsNil() {
			return v
		}
		c := reflect.New(v.Type().Elem())
		c.Elem().Set(deepCopy(v.Elem()))
		return c
	case reflect.Struct:
		if v.Type() == reflect.TypeFor[time.Time]() {
			return v
		}
		c := reflect.New(v.Type()).Elem()
		c.Set(v)
		for i := range v.NumField() {
			if f := v.Field(i); !flat(f.Type()) {
				c.Field(i).Set(deepCopy(f))
			}
		}
		return c
	case reflect.Slice:
		if v.IsNil() {
			return v
		}
		c := reflect.MakeSlice(v.Type(), v.Len(), v.Len())
		reflect.Copy(c, v)
		if !flat(v.Type().Elem()) {
			for i := range v.Len() {
				c.Index(i).Set(deepCopy(v.Index(i)))
			}
		}
		return c
	case reflect.Map:
		if v.IsNil() {
			return v
		}
		c := reflect.MakeMapWithSize(v.Type(), v.Len())
		for k, e := range v.Seq2() {
			c.SetMapIndex(k, deepCopy(e))
		}
		return c
	}
	return v
}

// flat says that a value of a type is copied whole by an assignment.
func flat(t reflect.Type) bool {
	switch t.Kind() {
	case reflect.Pointer, reflect.Struct, reflect.Slice, reflect.Map:
		return false
	}
	return true
}
