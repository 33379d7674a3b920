package redislease

// What Redis' ACL has to give the user of a provider, as ACL SETUSER takes it, for
// DefaultPrefix; another prefix is written in the place of "leasing".
//
//	ACL SETUSER app on >password ~leasing:* &leasing:wake:* +evalsha +eval ...
//
// Where a right is missing calls fail with leasing.ErrDenied, and no lease is left
// behind that its claim does not know of. Only what waiters alone need (the channels,
// +subscribe, +publish, +exists and those that begin with +z but +zadd) may be
// missing while leases work: then they poll. Without +mget all takes longer.
const (
	Rights = "~leasing:* &leasing:wake:* +evalsha +eval" +
		" +time +get +mget +set +exists +del +pttl +pexpire +persist" +
		" +zadd +zrem +zpopmin +zrange +publish" +
		" +subscribe +ping +scan"
	// ClusterRights are needed beside Rights on a Cluster.
	ClusterRights = "+cluster|slots"
	// RedlockRights are needed beside Rights on the servers of a Redlock.
	RedlockRights = "+info"
	// NameRights are needed beside Rights with client_name in the URL.
	NameRights = "+client|setname"
)
