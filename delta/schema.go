package delta

import _ "embed"

// SchemaJSON is the Avro schema of every record value: layout A of HoodieMetadataRecord with Hudi's five meta
// fields in front. It is the exact text that Hudi 1.2.0 put into the golden files (HFile info entry "schema"
// and log block header SCHEMA), so that a text comparison is enough to know the layout.
//
//go:embed schema.json
var SchemaJSON string
