package postgreslease

import (
	"database/sql"
	"encoding/hex"

	"github.com/distributedleasing/leasing/providers/sql/dialect"
)

// pgColumns returns the scan targets of PostgreSQL's statements: the clock, then the fragment "row", without the name.
func pgColumns(r *dialect.Row) []any {
	columns := r.Columns()
	columns[0], columns[12] = &r.Began, (*hexBytes)(&r.Memory)
	return columns[:13]
}

// hexBytes holds bytes that are read as hexadecimal text.
type hexBytes []byte

// Scan reads a column.
func (b *hexBytes) Scan(column any) (err error) {
	var text sql.NullString // drivers may also return bytes
	if err = text.Scan(column); err == nil {
		*b, err = hex.DecodeString(text.String)
	}
	return err
}
