package avrox

// Record is one decoded record by field name. Unions are unwrapped: a value is nil for null, else bool, int32, int64,
// float32, float64, string (also for an enum), []byte (bytes and fixed), []any, map[string]any or Record. Logical types
// are not applied.
//
// The getters return the zero value and false when the field is missing, null or of another type.
type Record map[string]any

// Str returns a string or enum field.
func (r Record) Str(name string) (string, bool) { v, ok := r[name].(string); return v, ok }

// Long returns a long or int field.
func (r Record) Long(name string) (int64, bool) {
	switch v := r[name].(type) {
	case int64:
		return v, true
	case int32:
		return int64(v), true
	}
	return 0, false
}

// Int returns an int field.
func (r Record) Int(name string) (int32, bool) { v, ok := r[name].(int32); return v, ok }

// Bool returns a boolean field.
func (r Record) Bool(name string) (bool, bool) { v, ok := r[name].(bool); return v, ok }

// Float returns a float field.
func (r Record) Float(name string) (float32, bool) { v, ok := r[name].(float32); return v, ok }

// Bytes returns a bytes or fixed field.
func (r Record) Bytes(name string) ([]byte, bool) { v, ok := r[name].([]byte); return v, ok }

// Rec returns a record field.
func (r Record) Rec(name string) (Record, bool) { v, ok := r[name].(Record); return v, ok }

// List returns an array field.
func (r Record) List(name string) ([]any, bool) { v, ok := r[name].([]any); return v, ok }

// Map returns a map field.
func (r Record) Map(name string) (map[string]any, bool) {
	v, ok := r[name].(map[string]any)
	return v, ok
}
