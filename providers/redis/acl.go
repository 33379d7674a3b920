package redislease

// These are the Redis ACL rules that a provider's user needs, as arguments of ACL SETUSER.
// They are for DefaultPrefix; for another prefix, replace "leasing".
//
//	"ACL SETUSER app on >password " + ACLRules
//
// Without these rules, calls fail with leasing.ErrDenied, and a denied acquire leaves no
// lease behind. Only the rules that serve waiters may be missing (the channels,
// +subscribe, +publish, and all that begin with +z except +zadd): then waiters poll.
const (
	ACLRules = "~leasing:* &leasing:wake:* +evalsha +eval" +
		" +time +get +set +zadd +pexpire +zrem +zpopmin +zrange +publish" +
		" +subscribe +ping +scan"
	// ClusterACLRules are needed in addition to ACLRules on a Cluster.
	ClusterACLRules = "+cluster|slots"
	// RedlockACLRules are needed in addition to ACLRules on the servers of a Redlock.
	RedlockACLRules = "+info"
	// NameACLRules are needed in addition to ACLRules if the URL has client_name.
	NameACLRules = "+client|setname"
)
