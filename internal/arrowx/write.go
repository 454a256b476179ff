package arrowx

import (
	"fmt"
	"io"
	"math"

	"github.com/apache/arrow/go/v17/arrow"
	"github.com/apache/arrow/go/v17/arrow/array"
	"github.com/apache/arrow/go/v17/arrow/ipc"
	"github.com/apache/arrow/go/v17/arrow/memory"
)

// ContentType is the media type of a stream.
const ContentType = "application/vnd.apache.arrow.stream"

// Column is a column of a stream. Values has one value for each row: nil, bool, an integer, a float, a string or bytes; others are
// written as text. A column is of the type of its values, of float64 where integers and floats meet, and of text where others do; one of
// nothing but nil is of the null type.
type Column struct {
	Name   string
	Values []any
}

// batchRows is how many rows a record batch has at most.
const batchRows = 16_384

// Write writes the columns, all of the same length, as a stream of record batches, with metadata on the schema.
func Write(w io.Writer, columns []Column, metadata map[string]string) error {
	rows := 0
	if len(columns) > 0 {
		rows = len(columns[0].Values)
	}
	fields := make([]arrow.Field, len(columns))
	for i, c := range columns {
		if len(c.Values) != rows {
			return fmt.Errorf("write column %s: %d values for %d rows", c.Name, len(c.Values), rows)
		}
		fields[i] = arrow.Field{Name: c.Name, Type: typeOf(c.Values), Nullable: true}
	}
	md := arrow.MetadataFrom(metadata)
	schema := arrow.NewSchema(fields, &md)
	out := ipc.NewWriter(w, ipc.WithSchema(schema))
	for at := 0; at < rows; at += batchRows {
		if err := writeBatch(out, schema, columns, at, min(rows, at+batchRows)); err != nil {
			return err
		}
	}
	if err := out.Close(); err != nil { // which writes the schema of a stream without batches
		return fmt.Errorf("write arrow stream: %w", err)
	}
	return nil
}

func writeBatch(out *ipc.Writer, schema *arrow.Schema, columns []Column, from, to int) error {
	b := array.NewRecordBuilder(memory.DefaultAllocator, schema)
	defer b.Release()
	for i, c := range columns {
		for _, v := range c.Values[from:to] {
			add(b.Field(i), v)
		}
	}
	rec := b.NewRecord()
	defer rec.Release()
	if err := out.Write(rec); err != nil {
		return fmt.Errorf("write arrow batch: %w", err)
	}
	return nil
}

// typeOf returns the type that holds all values.
func typeOf(values []any) arrow.DataType {
	var found arrow.DataType = arrow.Null
	for _, v := range values {
		t := typeOfOne(v)
		switch {
		case t == arrow.Null || t == found:
		case found == arrow.Null:
			found = t
		case number(found) && number(t):
			found = arrow.PrimitiveTypes.Float64
		default:
			return arrow.BinaryTypes.String
		}
	}
	return found
}

func number(t arrow.DataType) bool {
	return t == arrow.PrimitiveTypes.Float64 || t == arrow.PrimitiveTypes.Int64
}

func typeOfOne(v any) arrow.DataType {
	switch x := v.(type) {
	case nil:
		return arrow.Null
	case bool:
		return arrow.FixedWidthTypes.Boolean
	case int, int8, int16, int32, int64, uint8, uint16, uint32:
		return arrow.PrimitiveTypes.Int64
	case uint64:
		if x > math.MaxInt64 {
			return arrow.BinaryTypes.String
		}
		return arrow.PrimitiveTypes.Int64
	case float32, float64:
		return arrow.PrimitiveTypes.Float64
	case []byte:
		return arrow.BinaryTypes.Binary
	}
	return arrow.BinaryTypes.String
}

func add(b array.Builder, v any) {
	if v == nil {
		b.AppendNull()
		return
	}
	switch b := b.(type) {
	case *array.BooleanBuilder:
		b.Append(v.(bool))
	case *array.Int64Builder:
		b.Append(integer(v))
	case *array.Float64Builder:
		switch x := v.(type) {
		case float64:
			b.Append(x)
		case float32:
			b.Append(float64(x))
		default:
			b.Append(float64(integer(v)))
		}
	case *array.BinaryBuilder:
		b.Append(v.([]byte))
	case *array.StringBuilder:
		b.Append(fmt.Sprint(v))
	default:
		b.AppendNull()
	}
}

func integer(v any) int64 {
	switch x := v.(type) {
	case int:
		return int64(x)
	case int8:
		return int64(x)
	case int16:
		return int64(x)
	case int32:
		return int64(x)
	case int64:
		return x
	case uint8:
		return int64(x)
	case uint16:
		return int64(x)
	case uint32:
		return int64(x)
	case uint64:
		return int64(x)
	}
	return 0
}
