package redislease

// What Redis' ACL has to give the user of a provider, as ACL SETUSER takes it, for
// DefaultPrefix; another prefix is written in the place of "leasing".
//
//	"ACL SETUSER app on >password " + ACLRules
//
// Where a right is missing calls fail with leasing.ErrDenied, and no lease is left
// behind that its claim does not know of. Only what waiters alone need (the channels,
// +subscribe, +publish, and those that begin with +z but +zadd) may be missing while
// leases work: then they poll.
const (
	ACLRules = "~leasing:* &leasing:wake:* +evalsha +eval" +
		" +time +get +set +zadd +pexpire +zrem +zpopmin +zrange +publish" +
		" +subscribe +ping +scan"
	// ClusterACLRules are needed beside ACLRules on a Cluster.
	ClusterACLRules = "+cluster|slots"
	// RedlockACLRules are needed beside ACLRules on the servers of a Redlock.
	RedlockACLRules = "+info"
	// NameACLRules are needed beside ACLRules with client_name in the URL.
	NameACLRules = "+client|setname"
)
