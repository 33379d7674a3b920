package redislease

// Rights are what a user of Redis needs (see ACL SETUSER), for DefaultPrefix;
// another prefix is written in its place. With the rights of one that is missing
// calls fail with leasing.ErrDenied and leave nothing half done.
//
//	ACL SETUSER app on >password ~leasing:* &leasing:wake:* +evalsha +eval ...
//
// Less will do without waiters and listings: +subscribe, +unsubscribe and +scan
// are theirs, and +ping is Ping's. A Cluster needs ClusterRights as well, and a
// client_name in the URL +client|setname. Options.Bootstrap looks for servers that
// are the same under two addresses where +info lets it.
const Rights = "~leasing:* &leasing:wake:* +evalsha +eval" +
	" +time +get +set +exists +del +pttl +pexpire +persist" +
	" +zadd +zrem +zpopmin +zrange +publish" +
	" +subscribe +unsubscribe +ping +scan"

// ClusterRights are needed beside Rights on a Cluster.
const ClusterRights = "+cluster|slots"
