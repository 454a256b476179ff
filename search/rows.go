package search

import "math"

// rowOf names the values of further columns; nil if none were asked for. Numbers that JSON cannot hold become text.
func rowOf(columns []string, values []any) map[string]any {
	if len(columns) == 0 {
		return nil
	}
	row := make(map[string]any, len(columns))
	for i, name := range columns {
		if i < len(values) {
			row[name] = plain(values[i])
		}
	}
	return row
}

func plain(v any) any {
	switch x := v.(type) {
	case float64:
		return finite(x, v)
	case float32:
		return finite(float64(x), v)
	}
	return v
}

func finite(x float64, v any) any {
	switch {
	case math.IsNaN(x):
		return "NaN"
	case math.IsInf(x, 1):
		return "Infinity"
	case math.IsInf(x, -1):
		return "-Infinity"
	}
	return v
}
