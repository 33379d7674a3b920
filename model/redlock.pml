/*
 * Redlock: claims A and B want one name of three servers. See docs/model.md.
 *
 * Time is the order in which TTLs run out: a request's number says how many of the requests
 * before it, and itself, were sent less than a TTL ago; 0 if itself was not. A holder trusts its
 * lease while the request that it counts from has a number. A node may drop the lease once
 * it has none, and no earlier, since the node begins to count when the request arrives.
 *
 * A request is delivered at any time, in any order, or never; all but votes also again and
 * again, and to any server. So a delivery that would change nothing is left out.
 *
 * The servers are alike. So a state keeps them sorted (canonical), and stands for six.
 */
c_decl {
	\#include <stdlib.h>
	static int setting(const char *name, int value) { char *s = getenv(name); return s ? atoi(s) : value; }
};

/* The size of a run, from the environment. */
byte TRIES_A, TRIES_B;  /* attempts of the claims, at most 3 and 2 */
byte RENEWALS;          /* of claim A, at most 2 */
byte RESTARTS;          /* of one server, which loses its data */
byte SNAPSHOT;          /* 1: or comes back from an old snapshot */
byte COPIES;            /* votes that are delivered twice */
byte RELEASES;          /* 0: nobody releases */
byte TRAP;              /* what is broken, 0 if nothing is */
#define SETTINGS c_code { \
	now.TRIES_A = setting("TRIES_A", 1); now.TRIES_B = setting("TRIES_B", 0); now.RENEWALS = setting("RENEWALS", 0); \
	now.RESTARTS = setting("RESTARTS", 0); now.SNAPSHOT = setting("SNAPSHOT", 0); now.COPIES = setting("COPIES", 0); \
	now.RELEASES = setting("RELEASES", 0); now.TRAP = setting("TRAP", 0); }

/* The traps. */
#define NO_QUARANTINE   (TRAP == 1)  /* a server that has lost its data votes at once (T43) */
#define YOUNG_SNAPSHOT  (TRAP == 2)  /* one that comes back from a snapshot does (T76) */
#define ANY_TOKEN       (TRAP == 3)  /* a majority is enough, whatever its tokens */
#define NOT_HIGHEST     (TRAP == 4)  /* the lowest token is agreed on instead of the highest */
#define UNCONFIRMED     (TRAP == 5)  /* the highest is taken, but no majority has it (T55) */
#define LATE_UNDO       (TRAP == 6)  /* an undo does not look whether a later attempt has asked */
#define UNDO_RENEWED    (TRAP == 7)  /* a renewal does not protect from an undo */
#define UNDO_EARLIER    (TRAP == 8)  /* an undo always takes back what earlier attempts got */
#define UNDO_ZERO       (TRAP == 9)  /* one that may, takes renewed nodes too */
#define RELOCK_ENDED    (TRAP == 10) /* a renewal takes a node that knows of the release (T55) */
#define REPLY_TRUST     (TRAP == 11) /* trust counts from the reply (T01) */
#define EARLIER_LEASE   (TRAP == 12) /* a renewal of an earlier lease counts for this one */
#define VOTE_ENDED      (TRAP == 13) /* a released claim gets votes again (T56) */
#define HASTY           (TRAP == 14) /* a repeated attempt does not wait for the nodes that know its token */
#define NO_VALIDITY     (TRAP == 15) /* a majority counts however late it comes */
#define LOWER_MAJORITY  (TRAP == 16) /* an attempt that raises wins with a lower token all the same */
#define LATE_RAISE      (TRAP == 17) /* a raise does not look whether a later attempt has asked */

#define QUORUM 2
#define US 1         /* what a node has answered */
#define AGAINST 2
#define NOVOTE 3

typedef Node {
	unsigned holder : 2;    /* claim + 1, 0 if nobody */
	unsigned token : 4;     /* of the holder */
	unsigned before : 4;    /* the node's latest before it */
	unsigned made : 2;      /* the attempt that got it, 0 once renewed */
	unsigned promise : 2;   /* the latest attempt that has asked */
	unsigned since : 3;     /* the request that the lease counts from */
	unsigned last : 4;      /* latest token */
	unsigned over : 2;      /* claims that have ended, by bit */
	unsigned clock : 4;     /* tokens that are past by the node's clock */
	unsigned mute : 3;      /* the request that the quarantine lasts for, 0 if none does */
	unsigned loser : 1;     /* the server that loses data */
	/* Of each claim: votes under way, by bit of attempt; and the answer to the latest. */
	unsigned voteA : 4;
	unsigned voteB : 4;
	unsigned saysA : 2;
	unsigned saysB : 2;
	unsigned tokenA : 4;
	unsigned tokenB : 4;
	unsigned earlierA : 1;  /* an earlier attempt got the node */
	unsigned earlierB : 1;
	unsigned done1 : 1;     /* claim A knows that its first renewal is done here */
	unsigned done2 : 1
};
typedef Past {                  /* of an attempt */
	unsigned sent : 3;      /* its number as a request */
	bit undo, wide;         /* it was given up; also what earlier ones got */
	unsigned raise : 4      /* the token that it has agreed on */
};
typedef Renewal {
	unsigned token : 4;
	unsigned since : 3
};

Node node[3];
Node old;                       /* a snapshot of the loser */
Past past[8];                   /* claim * 4 + attempt */
Renewal renewal[3];             /* of claim A */
byte latest;                    /* requests sent less than a TTL ago */
byte try[2];                    /* the attempt under way */
byte trust[2], told[2];         /* the request that a holder counts from, 0 if none; its token */
byte most[2];                   /* the highest token that a claim was ever told */
byte top;                       /* the highest token that a node ever made */
byte copies, restarts;
bit saved, timedOut[2], released[2];
bit asking[2];
bit finished[2];                /* a claim that can't win any more */
byte i, low;                    /* scratch, 0 between steps */

c_code {
	static int order(const void *a, const void *b) { return memcmp(a, b, sizeof(struct Node)); }
};
#define canonical c_code { qsort(now.node, 3, sizeof(now.node[0]), order); }

#define LIVE(c) (trust[c] > 0)
#define HAS(k, c) (node[k].mute || node[k].holder == c + 1 && node[k].since)

#define BIT(t) (1 << (t))
#define KNOWS(k, c) ((node[k].over & BIT(c)) > 0)
#define BACK(c) (KNOWS(0, c) + KNOWS(1, c) + KNOWS(2, c) >= QUORUM && (node[0].holder == c + 1) + (node[1].holder == c + 1) + (node[2].holder == c + 1) >= QUORUM)

/* Whoever trusts a lease has a majority that gives the name to nobody else. */
inline check() {
	assert(!LIVE(0) || HAS(0, 0) + HAS(1, 0) + HAS(2, 0) >= QUORUM);
	assert(!LIVE(1) || HAS(0, 1) + HAS(1, 1) + HAS(2, 1) >= QUORUM);
	assert(!(LIVE(0) && LIVE(1)));
	/* A claim whose release a majority has done does not come back. */
	assert(RESTARTS || !BACK(0) && !BACK(1))
}

inline clear(k) {
	node[k].holder = 0; node[k].token = 0; node[k].before = 0;
	node[k].made = 0; node[k].promise = 0; node[k].since = 0
}

inline higher(small, big) { if :: big > small -> small = big :: else fi }

/* What has run out may be dropped, which matters only when something arrives. */
inline runOut(k) { if :: node[k].holder && node[k].since == 0 -> clear(k) :: true fi }

#define P(c, t) past[c*4+t]
#define WAITS(c, t) (asking[c] && try[c] == t)
#define REFUSED(c, k) ((node[k].over & BIT(c)) && !VOTE_ENDED)

inline reply(k, waits, answer, said, heard, prior, t) {
	if
	:: waits && said == 0 && (answer == US || t > 1) ->
		if
		:: said = answer;
			if :: answer == US -> heard = node[k].token; prior = (node[k].made != t) :: else fi
		:: answer == US /* the reply is lost */
		fi
	:: else
	fi
}

#define MAYTAKE(c, k) (!node[k].mute && (node[k].holder == 0 || node[k].since == 0) && !REFUSED(c, k))
#define KEEPS(c, k, t, said) (!node[k].mute && node[k].holder == c + 1 && (node[k].promise < t || node[k].since < P(c, t).sent || WAITS(c, t) && said == 0))
/* A refusal matters only if earlier attempts may have got something. */
#define REFUSES(c, k, t, said) (t > 1 && WAITS(c, t) && said == 0 && (node[k].mute || node[k].holder && node[k].holder != c + 1))
#define VOTES(c, k, t, pending, said) (pending & BIT(t) && (MAYTAKE(c, k) || KEEPS(c, k, t, said) || REFUSES(c, k, t, said)))

inline onVote(c, k, t, pending, said, heard, prior) {
	printf("node %d of last token %d, held by %d (token %d, since %d): attempt %d of claim %d asks\n", k, node[k].last, node[k].holder, node[k].token, node[k].since, t, c + 1);
	if :: pending = pending & ~BIT(t) :: copies < COPIES -> copies++ fi;
	runOut(k);
	if
	:: node[k].mute -> reply(k, WAITS(c, t), NOVOTE, said, heard, prior, t)
	:: !node[k].mute && node[k].holder && node[k].holder != c + 1 -> reply(k, WAITS(c, t), AGAINST, said, heard, prior, t)
	:: !node[k].mute && node[k].holder == 0 && !REFUSED(c, k) ->
		if :: RENEWALS -> node[k].before = node[k].last :: else fi;
		higher(node[k].last, node[k].clock); node[k].last++;
		if :: RESTARTS -> higher(top, node[k].last) :: else fi;
		node[k].holder = c + 1; node[k].token = node[k].last;
		node[k].made = t; node[k].promise = t; node[k].since = P(c, t).sent;
		reply(k, WAITS(c, t), US, said, heard, prior, t)
	:: !node[k].mute && node[k].holder == c + 1 && !REFUSED(c, k) ->
		higher(node[k].promise, t); higher(node[k].since, P(c, t).sent);
		reply(k, WAITS(c, t), US, said, heard, prior, t)
	:: else
	fi
}

#define RAISES(c, k, t, said, heard) (P(c, t).raise && node[k].holder == c + 1 && !node[k].mute && (node[k].promise <= t || LATE_RAISE) && \
	(P(c, t).raise > node[k].token || WAITS(c, t) && said == US && heard < node[k].token))

inline onRaise(c, k, t, said, heard) {
	printf("node %d: attempt %d of claim %d raises %d to %d\n", k, t, c + 1, node[k].token, P(c, t).raise);
	higher(node[k].token, P(c, t).raise); higher(node[k].last, P(c, t).raise);
	if
	:: WAITS(c, t) && said == US -> heard = node[k].token
	:: true /* the reply is lost */
	fi
}

#define TAKES_BACK(c, k, t) (node[k].made == t || node[k].made < t && (node[k].made > 0 || UNDO_ZERO) && (P(c, t).wide || UNDO_EARLIER))
#define UNDOES(c, k, t) (P(c, t).undo && node[k].holder == c + 1 && (node[k].promise <= t || LATE_UNDO) && TAKES_BACK(c, k, t))

#define RENEWS(k, r) (renewal[r].token && !node[k].mute && (node[k].holder == 1 && (node[k].since < renewal[r].since || node[k].made) || \
	node[k].holder == 0 || node[k].since == 0))

inline onRenew(k, r, noted) {
	printf("node %d of last token %d, held by %d: renewal %d (token %d, number %d)\n", k, node[k].last, node[k].holder, r, renewal[r].token, renewal[r].since);
	runOut(k);
	if
	:: node[k].holder == 1 && (renewal[r].token > node[k].before || EARLIER_LEASE) ->
		higher(node[k].since, renewal[r].since);
		if :: !UNDO_RENEWED -> node[k].made = 0 :: else fi;
		higher(node[k].token, renewal[r].token); higher(node[k].last, node[k].token);
		if :: renewal[r].since -> noted = 1 :: true fi
	:: node[k].holder == 0 && (!(node[k].over & 1) || RELOCK_ENDED) && node[k].last <= renewal[r].token ->
		node[k].holder = 1; node[k].token = renewal[r].token; node[k].since = renewal[r].since;
		node[k].before = node[k].last;
		if :: node[k].before >= renewal[r].token -> node[k].before = renewal[r].token - 1 :: else fi;
		node[k].last = renewal[r].token;
		if :: renewal[r].since -> noted = 1 :: true fi
	:: else
	fi
}

inline onRelease(c, k) {
	printf("node %d: release of claim %d\n", k, c + 1);
	if :: node[k].holder == c + 1 -> clear(k) :: else fi;
	node[k].over = node[k].over | BIT(c)
}

#define VOTE(c, k, t, pending, said, heard, prior) \
	:: atomic { VOTES(c, k, t, pending, said) -> onVote(c, k, t, pending, said, heard, prior); check(); canonical }
#define RAISE(c, k, t, said, heard) :: atomic { RAISES(c, k, t, said, heard) -> onRaise(c, k, t, said, heard); canonical }
#define UNDO(c, k, t) :: atomic { UNDOES(c, k, t) -> printf("node %d: attempt %d of claim %d is undone\n", k, t, c + 1); clear(k); check(); canonical }
#define RELEASE(c, k) :: atomic { released[c] && !(node[k].over & BIT(c)) -> onRelease(c, k); check(); canonical }
#define RENEW(k, r, noted) :: atomic { RENEWS(k, r) -> onRenew(k, r, noted); check(); canonical }
#define LINKA(k, t) \
	VOTE(0, k, t, node[k].voteA, node[k].saysA, node[k].tokenA, node[k].earlierA) \
	RAISE(0, k, t, node[k].saysA, node[k].tokenA) UNDO(0, k, t)
#define LINKB(k, t) \
	VOTE(1, k, t, node[k].voteB, node[k].saysB, node[k].tokenB, node[k].earlierB) \
	RAISE(1, k, t, node[k].saysB, node[k].tokenB) UNDO(1, k, t)
inline copy(copied, original) {
	copied.holder = original.holder; copied.token = original.token; copied.before = original.before;
	copied.made = original.made; copied.promise = original.promise; copied.since = original.since;
	copied.last = original.last; copied.over = original.over
}

inline less(x) { if :: x -> x-- :: else fi }

/* The oldest request was sent a TTL ago. */
inline tick() {
	printf("the oldest TTL of %d runs out\n", latest);
	latest--;
	for (i : 0 .. 2) {
		less(node[i].since);
		if :: node[i].mute == 1 -> clear(i) :: else fi;
		less(node[i].mute); less(renewal[i].since)
	}
	for (i : 0 .. 7) { less(past[i].sent) }
	for (i : 0 .. 1) { less(trust[i]); if :: trust[i] == 0 -> told[i] = 0 :: else fi }
	less(old.since);
	i = 0
}

inline restart(k) {
	printf("node %d restarts, saved %d\n", k, saved);
	restarts++;
	clear(k); node[k].last = 0; node[k].over = 0; node[k].clock = top;
	if :: !NO_QUARANTINE -> node[k].mute = latest :: else fi;
	if
	:: saved -> copy(node[k], old); if :: YOUNG_SNAPSHOT -> node[k].mute = 0 :: else fi
	:: true
	fi
}

/* A server and the wires to it. The first one keeps the time. */
proctype Server(byte k) {
end:	do
	LINKA(k, 1) LINKA(k, 2) LINKA(k, 3) LINKB(k, 1) LINKB(k, 2)
	RELEASE(0, k) RELEASE(1, k)
	RENEW(k, 1, node[k].done1) RENEW(k, 2, node[k].done2)
	:: atomic { k == 0 && latest -> tick(); check(); canonical }
	:: atomic { SNAPSHOT && !saved && restarts == 0 && latest && node[k].loser -> saved = 1; copy(old, node[k]) }
	:: atomic { restarts < RESTARTS && node[k].loser && !node[k].mute && latest -> restart(k); check(); canonical }
	od
}

#define SAYS(k) (c == 0 -> node[k].saysA : node[k].saysB)
#define TELLS(k) (c == 0 -> node[k].tokenA : node[k].tokenB)
#define EARLIER(k) (c == 0 -> node[k].earlierA : node[k].earlierB)
#define OURS(k) (SAYS(k) == US)
#define SAME(x, y) (OURS(x) && OURS(y) && (TELLS(x) == TELLS(y) || ANY_TOKEN))
#define OPEN(k) (SAYS(k) == 0 || SAYS(k) == NOVOTE)
#define MAYBE(k) (OPEN(k) || OURS(k) && EARLIER(k))
#define NO_EARLIER (MAYBE(0) + MAYBE(1) + MAYBE(2) < QUORUM)
/* An earlier attempt may have won, with a token that a node which has not answered knows. */
#define POSSIBLE (!NO_EARLIER && (OPEN(0) || OPEN(1) || OPEN(2)))
#define INTIME (P(c, try[c]).sent || NO_VALIDITY)
/* Once an attempt has asked nodes to raise their token it has no lower one. */
#define RAISED(k) (TELLS(k) >= P(c, try[c]).raise || LOWER_MAJORITY)

inline forget(c) {
	for (i : 0 .. 2) {
		if
		:: c == 0 -> node[i].saysA = 0; node[i].tokenA = 0; node[i].earlierA = 0
		:: else -> node[i].saysB = 0; node[i].tokenB = 0; node[i].earlierB = 0
		fi
	}
	i = 0; asking[c] = 0; timedOut[c] = 0; raised = 0
}

inline ask(c) {
	printf("claim %d begins attempt %d\n", c + 1, try[c] + 1);
	try[c]++; latest++; P(c, try[c]).sent = latest; asking[c] = 1;
	for (i : 0 .. 2) {
		if
		:: c == 0 -> node[i].voteA = node[i].voteA | BIT(try[c])
		:: else -> node[i].voteB = node[i].voteB | BIT(try[c])
		fi
	}
	i = 0
}

inline giveUp(c) {
	printf("claim %d gives attempt %d up, wide %d\n", c + 1, try[c], NO_EARLIER);
	P(c, try[c]).undo = 1;
	if :: NO_EARLIER -> P(c, try[c]).wide = 1 :: else fi;
	forget(c)
}

inline agree(c) {
	raised = 1;
	if :: POSSIBLE && !HASTY -> timedOut[c] = 1 :: else fi;
	for (i : 0 .. 2) {
		if :: OURS(i) && TELLS(i) > P(c, try[c]).raise -> P(c, try[c]).raise = TELLS(i) :: else fi
	}
	low = P(c, try[c]).raise;
	for (i : 0 .. 2) {
		if :: OURS(i) && TELLS(i) < low -> low = TELLS(i) :: else fi
	}
	i = 0
}

inline win(c) {
	printf("claim %d wins by attempt %d, token %d, number %d\n", c + 1, try[c], low, P(c, try[c]).sent);
	/* The token is above those of all others who were told one, and a claim that lives keeps its. */
	assert(low > most[1-c]);
	assert(!LIVE(c) || low >= told[c]);
	assert(!LIVE(c) || low == told[c] || timedOut[c] || c == 1);
	trust[c] = (REPLY_TRUST -> latest : P(c, try[c]).sent);
	P(c, try[c]).raise = low; /* also to nodes that answer late */
	if :: LIVE(c) && c == 0 -> told[c] = low :: else fi;
	if :: !finished[1-c] -> higher(most[c], low) :: else fi;
	if :: try[c] == tries -> finished[c] = 1; most[1-c] = 0 :: else fi;
	forget(c);
	low = 0; check(); canonical
}

proctype Claim(byte c, tries, renewals) {
	byte r;
	bit raised;

idle:	if
	:: atomic { try[c] < tries -> ask(c); canonical; goto ask1 }
	:: d_step { try[c] == tries && !finished[c] -> finished[c] = 1; most[1-c] = 0 }; goto idle
	:: RELEASES -> goto leave
	fi;
ask1:	do
	:: atomic { INTIME && RAISED(0) && (SAME(0, 1) || SAME(0, 2)) -> low = TELLS(0); win(c); goto held }
	:: atomic { INTIME && RAISED(1) && SAME(1, 2) -> low = TELLS(1); win(c); goto held }
	:: atomic { INTIME && !raised && OURS(0) + OURS(1) + OURS(2) >= QUORUM && !SAME(0, 1) && !SAME(0, 2) && !SAME(1, 2) ->
		agree(c);
		if
		:: UNCONFIRMED -> low = P(c, try[c]).raise; win(c); goto held
		:: NOT_HIGHEST -> win(c); goto held
		:: else
		fi; low = 0 }
	:: atomic { giveUp(c); canonical;
		if
		:: LIVE(c) -> goto held
		:: else -> goto idle
		fi }
	od;
held:	do
	:: d_step { LIVE(c) && r < renewals -> r++; latest++; printf("claim %d renews: %d\n", c + 1, r); renewal[r].token = told[c]; renewal[r].since = latest }
	:: atomic { r == 1 && LIVE(c) && renewal[1].since > trust[c] && node[0].done1 + node[1].done1 + node[2].done1 >= QUORUM ->
		trust[c] = renewal[1].since; check() }
	:: atomic { r == 2 && LIVE(c) && renewal[2].since > trust[c] && node[0].done2 + node[1].done2 + node[2].done2 >= QUORUM ->
		trust[c] = renewal[2].since; check() }
	:: LIVE(c) && try[c] < tries -> goto idle /* asked for again: the reply was lost */
	:: LIVE(c) && RELEASES -> goto leave
	:: !LIVE(c) -> goto idle
	od;
leave:	atomic { printf("claim %d releases\n", c + 1); trust[c] = 0; told[c] = 0; released[c] = 1; finished[c] = 1; most[1-c] = 0 }
}

init {
	atomic {
		SETTINGS;
		node[2].last = 1; top = 2; /* one has an older lease's token */
		if :: RESTARTS -> node[0].loser = 1 :: else fi;
		canonical;
		run Claim(0, TRIES_A, RENEWALS); run Claim(1, TRIES_B, 0);
		run Server(0); run Server(1); run Server(2)
	}
}
