package mdt

import (
	"reflect"
	"sync"
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
		if flat(v.Type()) {
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
		c, whole := reflect.MakeMapWithSize(v.Type(), v.Len()), flat(v.Type().Elem())
		for k, e := range v.Seq2() {
			if !whole {
				e = deepCopy(e)
			}
			c.SetMapIndex(k, e)
		}
		return c
	}
	return v
}

// flat says that a value of a type is copied whole by an assignment.
func flat(t reflect.Type) bool {
	switch t.Kind() {
	case reflect.Pointer, reflect.Slice, reflect.Map:
		return false
	case reflect.Struct:
		return flatStruct(t)
	}
	return true
}

// flats says of struct types whether they are flat: what holds many of them, such as files and covered commits, is copied at once.
var flats sync.Map

func flatStruct(t reflect.Type) bool {
	if known, ok := flats.Load(t); ok {
		return known.(bool)
	}
	is := t == reflect.TypeFor[time.Time]()
	if !is {
		is = true
		for i := range t.NumField() {
			is = is && flat(t.Field(i).Type)
		}
	}
	flats.Store(t, is)
	return is
}
