package sqllease

import (
	"cmp"

	"github.com/distributedleasing/leasing/abstractions/providerkit"
	"github.com/distributedleasing/leasing/providers/sql/sqlkit"
)

func (*postgres) verdict(err error) sqlkit.Verdict { return sqlkit.Postgres(err) }

func (*sqlite) verdict(err error) sqlkit.Verdict { return sqlkit.SQLite(err) }

func (d mysqlDatabase) verdict(err error) sqlkit.Verdict { return sqlkit.MySQL(d.number(err), err) }

func (m *mysql) verdict(err error) sqlkit.Verdict { return m.db.verdict(err) }

// Classify says what an error of a driver means.
func (d *driver) Classify(err error) providerkit.Meaning {
	m := d.backend.verdict(err).Meaning
	if m.Class == providerkit.NotSetUp {
		m.Advice = cmp.Or(m.Advice, "check the URL, Schema and Table, and call Migrate, or set sqllease.Options.Create")
	}
	return m
}
