// Package filelease leases files and folders, so that processes, also on several
// machines, do not edit the same ones at a time.
//
//	tree, err := filelease.New(manager, filelease.Options{Root: "/src/app", Name: "app"})
//	...
//	set, err := tree.Acquire(ctx, []string{"go.mod", "internal/store/"}, nil)
//	if err != nil {
//		return err
//	}
//	defer set.Release(ctx)
//
// It works over any manager. Where the processes of one machine share a tree and
// nothing else is at hand, SQLite in a folder of the tree serves: see [StateFolder].
//
// # What a path means
//
// The lease of a path is named after its place in the tree: app:/internal/store. So
// machines with other checkouts mean the same file, if they give the tree one name.
// Paths are absolute, or relative to the root. Symbolic links and ".." are followed as
// the system does, also in a path whose end does not exist yet. What is not in the
// tree then is refused. On a file system that folds case, upper and lower case are one
// name. With Options.HardLinks two names of one file exclude each other too, on one
// machine.
//
// If what a path leads to changes while its lease is waited for, it is resolved again.
//
// # What a lease covers
//
// Leases are exclusive: they are for those who write. Readers need none if writers
// replace files by renaming, as they should. A lease of a folder covers all that is
// below it, also what does not exist yet: while it is held nobody else gets a lease
// there, nor of a folder above. Several paths are acquired in one order, all or none,
// and those that another one of them covers are left out.
//
// A file's lease is acquired by its own name, and then the folders above are looked
// at; a folder's by its name, and then it waits for the leases below. Each writes
// before it looks, so one of the two sees the other, and it is the file's that gives
// way. That needs a backend that lists, and whose reads show what was written. Where
// they may lag (Cosmos DB: Capabilities.ReadsMayLag) folders can't be leased, and what
// a path leads to is leased by its own name alone.
//
// # What it does not promise
//
// Nobody is kept from a file but those who ask for its lease, and a paused process may
// write late: write to a file beside it, and rename that while the set's context
// lives. No order is promised between those who wait for a folder and for files in it.
// Acquires of one process wait for each other as those of several do: one that holds a
// folder and asks for a file in it, in another Acquire, waits for itself. Ask for all
// paths at once.
//
// Case is folded letter by letter (Unicode's simple folding). Other spellings that a
// file system takes for one name, such as composed and decomposed letters on macOS, or
// short names on Windows, are different names here. Hard links, bind mounts and mounts
// of one tree at two places are told apart by their paths, but for Options.HardLinks.
// That processes which spell one file differently exclude each other is tested on Linux.
// On macOS and Windows the same code resolves paths, and no test has run there; nor has
// one on a file system that folds case.
//
// # What it costs
//
// For each path one acquire, and one Inspect for each folder above it, up to the root.
// A folder costs one listing of what is held below it more. No file is read or
// written.
package filelease
