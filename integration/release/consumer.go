package main

import (
	"os"
	"path/filepath"
	"strings"
)

// providers are the modules whose small program is derived from that of providers/sql/sqlite. For
// each slug the map has the module's package, the variable with the URL of a server, and the URL
// that is used if the variable is not set.
var providers = map[string][3]string{
	"providers-blob":      {"bloblease", "", "azblob:///leases?connection_string_env=LEASING_TEST_AZURITE&create=true"},
	"providers-cosmos":    {"cosmoslease", "LEASING_TEST_COSMOS", "cosmos+http://:a2V5@127.0.0.1:8081/app/leases?create=true"},
	"providers-s3":        {"s3lease", "LEASING_TEST_S3", "s3://access:secret@leasing?endpoint=http://127.0.0.1:7070&path_style=true"},
	"providers-etcd":      {"etcdlease", "LEASING_TEST_ETCD", "etcd://127.0.0.1:2379"},
	"providers-redis":     {"redislease", "LEASING_TEST_REDIS", "redis://127.0.0.1:6379"},
	"providers-sql-mysql": {"mysqllease", "LEASING_TEST_MARIADB", "mysql://root@127.0.0.1:3306/leasing?create=true"},
}

// commands maps each module that is itself a program to arguments for a trial run. FOLDER is a new folder.
var commands = map[string][]string{
	"cmd-leasing":     {"run", "--url", "sqlite://FOLDER/leases.db?create=true", "hello", "--", "true"},
	"cmd-leasing-dev": {"bench", "--url", "sqlite://FOLDER/leases.db?create=true", "--for", "300ms"},
}

// writeConsumer writes the small program of a module's user.
func writeConsumer(release string, m released, to string) error {
	of, replaced := m.slug, strings.NewReplacer()
	if p, ok := providers[m.slug]; ok {
		of = "providers-sql-sqlite"
		replaced = strings.NewReplacer("providers/sql/sqlite", m.dir, "sqlitelease", p[0], "LEASING_TEST_SQLITE", p[1], "sqlite://leases.db?create=true", p[2])
	}
	text, err := os.ReadFile(filepath.Join(release, "consumers", of, "main.go"))
	if err != nil {
		return err
	}
	return os.WriteFile(to, []byte(replaced.Replace(string(text))), 0o644)
}
