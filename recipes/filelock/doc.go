// Package filelock leases files and folders, so that processes, on one machine
// or several, do not edit the same files at the same time.
//
//	tree, err := filelock.New(manager, filelock.Options{Root: "/src/app", Name: "app"})
//	...
//	set, err := tree.Acquire(ctx, []string{"go.mod", "internal/store/"})
//	if err != nil {
//		return err
//	}
//	defer set.Release(ctx)
//
// It works with any manager. Processes of one machine that share a tree need no
// server: SQLite in a folder of the tree, or of its git repository, is enough: see
// [StateFolder].
//
// # What a path means
//
// The lease of a path is named after its position in the tree: app:/internal/store. So
// checkouts on different machines refer to the same file if they use the same
// Options.Name. Paths are absolute, or relative to the root. Symbolic links and ".."
// are resolved as the operating system does, even if the last elements of the path do not exist
// yet. A path that leads out of the tree is refused. On a case-insensitive file system names are
// compared without case. With Options.HardLinks two hard links to one file exclude each other too,
// on one machine.
//
// If the target of a path changes while Acquire waits for its lease, Acquire resolves the path once
// more.
//
// # What a lease covers
//
// Leases are exclusive: they are for writers. Readers need no lease if writers
// replace files by renaming, as recommended. A lease of a folder covers everything below it,
// including files that do not exist yet: while it is held, no other process gets a lease below the
// folder, or of a folder above. Several paths are acquired in a fixed order, and a failed acquire
// holds no path. A path that another of the paths covers is left out.
//
// To lease a file, Acquire acquires the lease of its name and then checks the folders above. To
// lease a folder, it acquires the lease of its name and then waits for the leases below. Each
// writes before it reads, so at least one of two concurrent acquires sees the other, and the one
// for the file gives way. Leases of folders need a backend that lists, and whose reads show the
// latest write. Where reads may lag (Cosmos DB: Capabilities.ReadsMayLag) folders can't be leased,
// and a file's lease does not check the folders above. On a Redis Cluster, do not lease folders
// while slots are being moved between masters: a listing may then miss a lease below the folder, so
// that both leases are held.
//
// # What it does not promise
//
// Leases exclude only processes that ask for them, and a paused process may write
// late: write to a temporary file beside the target, and rename it while the set's
// context is alive. A lease belongs to a name: a holder that renames src/old/ to src/new/ still
// holds src/old, and others can get src/new. Acquire both names before the rename. Acquire
// considers the hard links that exist when it returns: a link that is made later, between the files
// of two holders, ends neither lease. A link outside the root is found only by its inode, as read
// by Acquire.
//
// No order is promised between waiters for a folder and waiters for
// files in that folder. Acquires of one process exclude each other like those of
// several: if a process holds a folder and calls Acquire again for a file in it, it waits for
// itself. Ask for all paths at once.
//
// Case is folded letter by letter (Unicode's simple folding). Other spellings that a
// file system treats as one name, such as composed and decomposed letters on macOS, or
// short names on Windows, are different names here. Hard links without
// Options.HardLinks are different names too, and so are bind mounts and mounts of one tree at two places, whatever the options.
// Tests on Linux show that different spellings of one file exclude each other. On macOS and Windows the same code resolves paths,
// but has not been tested there, nor on a case-insensitive file system.
//
// # What it costs
//
// Each path costs one acquire, and one Inspect for each folder above it, up to the
// root. A folder also costs one listing of the held leases below the folder. A name can be no
// longer than the backend's limit (Capabilities), often 512 bytes; a longer path is refused. No
// file is read or written. With Options.HardLinks Acquire visits each file below a folder twice,
// and each file below the root if one of the files has several names.
package filelock
