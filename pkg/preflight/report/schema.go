package report

import _ "embed" // of the schema

// Schema of reports, full and compact. It is generated from the types by the tests.
//
//go:embed report.schema.json
var Schema []byte
