package certmagic

import "sync"

// Adapter is the adapter's constructor, which the tests of this package can't import.
var Adapter func(files *FileStorage) Storage

var below sync.Map // the files of each storage

// Leased returns a storage of files whose locks are leases.
func Leased(files *FileStorage) Storage {
	s := Adapter(files)
	below.Store(s, files)
	return s
}

func filesOf(s Storage) *FileStorage {
	files, _ := below.Load(s)
	return files.(*FileStorage)
}
