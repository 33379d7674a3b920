/*
 * One backend, CLAIMS claims of one name, and a resource with a fence. See docs/model.md.
 *
 * A tick is one of the backend's clock. A holder's clock may miss DRIFT ticks within a term,
 * and MARGIN makes up for that. Requests are marks until they are delivered: at any time, in
 * any order, or never; an acquire may be delivered COPIES times more, everything else as
 * often as there is something left to do.
 */
c_decl {
	\#include <stdlib.h>
	static int setting(const char *name, int value) { char *s = getenv(name); return s ? atoi(s) : value; }
};

/* The size of a run, from the environment. */
byte TTL;               /* ticks */
byte CLAIMS;            /* 2 or 3 */
byte ASKS;              /* acquires of each */
byte COPIES, BREAKS, FORGETS;
byte TRAP;              /* what is broken, 0 if nothing is */
#define SETTINGS c_code { \
	now.TTL = setting("TTL", 2); now.CLAIMS = setting("CLAIMS", 2); now.ASKS = setting("ASKS", 1); now.COPIES = setting("COPIES", 0); \
	now.BREAKS = setting("BREAKS", 0); now.FORGETS = setting("FORGETS", 0); now.TRAP = setting("TRAP", 0); }
#define DRIFT 1

/* The traps. */
#define FROM_REPLY     (TRAP == 1)  /* trust counts from the reply (T01) */
#define REVIVES        (TRAP == 2)  /* a renewal revives an expired lease beside its new holder (T20) */
#define TOKEN_DELETED  (TRAP == 3)  /* a release deletes the token (T21) */
#define LATE_ACQUIRE   (TRAP == 4)  /* an acquire lands after its own release (T56) */
#define BREAKS_NEXT    (TRAP == 5)  /* a break hits the next holder (T63) */
#define NO_FLOOR       (TRAP == 6)  /* a forgotten name's tokens begin anew (T54) */
#define NO_FENCE       (TRAP == 7)  /* the resource does not compare tokens (T05) */
#define OTHER_TOKEN    (TRAP == 8)  /* a renewal does not look at who holds the name (T84) */
#define NO_MARGIN      (TRAP == 9)  /* the holder's clock is taken for the backend's (T02) */
#define TTL_GROWS      (TRAP == 10) /* a renewal is trusted for longer than the backend gives (T07, T85) */
#define FORGETS_EARLY  (TRAP == 11) /* ended IDs are forgotten while requests are under way (T56) */
#define BOTH_INSERT    (TRAP == 12) /* an acquire looks, and then inserts (T18) */
#define SHORTENS       (TRAP == 13) /* a late copy of an acquire sets the TTL of a longer lease back */
#define TOKEN_RISES    (TRAP == 14) /* a renewal raises the token, so that the holder's own is stale (T22) */

#define MARGIN (NO_MARGIN -> 0 : DRIFT)

byte holder, left, token;       /* the record: claim, 0 if nobody; ticks to its expiry; latest token */
bit breaking;                   /* it runs out, and can't be renewed */
byte over;                      /* claims that have ended, by bit */
byte floor;                     /* tokens that are past by the backend's clock */

byte acquires[4];               /* under way, by claim */
bit releases[4], insert[4];
byte renews[4];                 /* the token of a renewal under way, 0 if none */
byte breaks;                    /* the token of a break under way */
bit brokenNow[4];               /* broken with no time left */
byte copies, broke, forgot;     /* how often */

typedef Holder {
	unsigned trust : 3;     /* ticks, on its own clock */
	unsigned age : 3;       /* of the request under way */
	unsigned missed : 1;    /* tick of the term */
	unsigned late : 1;      /* tick of the request under way */
	bit waits;              /* for a reply */
	bit granted;            /* the reply */
	unsigned token : 3;
	unsigned reply : 3      /* the reply's token */
};
Holder me[4];
byte writing[4];                /* the token of a write that has passed its check, by claim */
byte fence;                     /* the highest token that the resource has seen */
byte latest, place[4];          /* grants; of a claim: which of them its latest is */
byte writes[4];                 /* of a write under way: the same of its lease */
bit gone[4];                    /* released or broken, whatever the backend knows */
byte written;                   /* the place of the latest write */

#define BIT(c) (1 << (c))
#define HELD (holder && left)
#define WAITING(c) (me[c].waits && !me[c].granted)

inline higher(low, high) { if :: high > low -> low = high :: else fi }

inline check() {
	/* A trusted lease is the backend's, unless it was broken at once: so there is one at most. */
	assert(!me[1].trust || brokenNow[1] || (holder == 1 && left));
	assert(!me[2].trust || brokenNow[2] || (holder == 2 && left));
	assert(!me[3].trust || brokenNow[3] || (holder == 3 && left));
	/* And its token is the record's. */
	assert(!me[1].trust || brokenNow[1] || me[1].token == token);
	assert(!me[2].trust || brokenNow[2] || me[2].token == token);
	/* A claim that has ended does not come back. */
	assert(!(HELD && gone[holder]))
}

inline answer(c) {
	if
	:: WAITING(c) && me[c].age < TTL -> me[c].granted = 1; me[c].reply = token
	:: true /* the reply is lost */
	fi
}

inline take(c) {
	holder = c; left = TTL; breaking = 0;
	higher(token, floor); token++;
	latest++; place[c] = latest;
	answer(c)
}

inline onAcquire(c) {
	if :: acquires[c]-- :: copies < COPIES -> copies++ fi;
	if
	:: (over & BIT(c)) && !LATE_ACQUIRE
	:: !(over & BIT(c)) || LATE_ACQUIRE ->
		if
		:: HELD && holder == c && !breaking ->
			if :: SHORTENS -> left = TTL - 1 :: else -> left = TTL fi;
			answer(c)
		:: !HELD && !BOTH_INSERT -> take(c)
		:: !HELD && BOTH_INSERT -> insert[c] = 1
		:: else
		fi
	:: else
	fi
}

inline onRenew(c) {
	if
	:: (holder == c || OTHER_TOKEN || REVIVES) && (left || REVIVES) && (token == renews[c] || OTHER_TOKEN || REVIVES) && !breaking && !(over & BIT(c)) ->
		holder = c; left = TTL;
		if :: TOKEN_RISES -> token++ :: else fi;
		answer(c)
	:: else
	fi
}

inline onRelease(c) {
	if :: holder == c -> holder = 0; left = 0; breaking = 0; if :: TOKEN_DELETED -> token = 0 :: else fi :: else fi;
	over = over | BIT(c); gone[c] = 1;
	releases[c] = 0
}

inline onBreak() {
	if
	:: HELD && (token == breaks || BREAKS_NEXT) ->
		if
		:: over = over | BIT(holder); gone[holder] = 1;
			if :: token == breaks -> brokenNow[holder] = 1 :: else fi;
			holder = 0; left = 0; breaking = 0
		:: breaking = 1
		fi
	:: else
	fi;
	breaks = 0
}

inline tickOf(c) {
	if
	:: me[c].trust = (me[c].trust -> me[c].trust - 1 : 0); me[c].age = (me[c].age < TTL && me[c].waits -> me[c].age + 1 : me[c].age)
	:: (me[c].trust || me[c].waits) && me[c].missed < DRIFT && me[c].late < DRIFT ->
		me[c].missed = (me[c].trust -> 1 : 0); me[c].late = me[c].waits
	fi;
	if :: me[c].trust == 0 -> me[c].missed = 0; me[c].token = (me[c].waits -> me[c].token : 0) :: else fi
}

#define DELIVER(c) \
	:: atomic { acquires[c] -> onAcquire(c); check() } \
	:: atomic { insert[c] -> insert[c] = 0; take(c); check() } \
	:: atomic { renews[c] -> onRenew(c); check(); if :: renews[c] = 0 :: copies < COPIES -> copies++ fi } \
	:: atomic { releases[c] -> onRelease(c); check() } \
	:: atomic { writing[c] -> /* a pause may lie between the check and the write */ \
		if \
		:: writing[c] >= fence || NO_FENCE -> \
			assert(writes[c] >= written); \
			fence = writing[c]; written = writes[c] \
		:: else -> assert(!me[c].trust || brokenNow[c] || me[c].token != writing[c]) \
		fi; writing[c] = 0; writes[c] = 0 }

proctype World() {
end:	do
	DELIVER(1) DELIVER(2) DELIVER(3)
	:: atomic { broke < BREAKS && HELD -> broke++; breaks = token }
	:: atomic { breaks -> onBreak(); check() }
	:: atomic { left || me[1].trust || me[2].trust || me[3].trust || me[1].waits && me[1].age < TTL || me[2].waits && me[2].age < TTL ->
		left = (left -> left - 1 : 0);
		tickOf(1); tickOf(2); tickOf(3); check() }
	:: atomic { forgot < FORGETS && !HELD && token && (FORGETS_EARLY || acquires[1] + acquires[2] + acquires[3] + renews[1] + renews[2] + renews[3] + breaks == 0) ->
		/* No request is under way for so long. The clock has passed all tokens. */
		forgot++;
		if :: !NO_FLOOR -> floor = token :: else fi;
		holder = 0; token = 0; breaking = 0;
		if :: FORGETS_EARLY -> over = 0 :: else fi }
	od
}

inline trustIt(c) {
	/* Trust counts from before the request was sent. */
	if
	:: FROM_REPLY -> me[c].trust = TTL - MARGIN
	:: TTL_GROWS && me[c].trust -> me[c].trust = me[c].trust + TTL - MARGIN - me[c].age
	:: else ->
		if
		:: me[c].age < TTL - MARGIN && TTL - MARGIN - me[c].age > me[c].trust -> me[c].trust = TTL - MARGIN - me[c].age; me[c].missed = me[c].late
		:: else
		fi
	fi;
	if :: me[c].trust && me[c].token == 0 -> me[c].token = me[c].reply :: else fi;
	me[c].waits = 0; me[c].granted = 0; me[c].reply = 0; me[c].age = 0; me[c].late = 0;
	check()
}

inline send(c) { me[c].waits = 1; me[c].granted = 0; me[c].reply = 0; me[c].age = 0; me[c].late = 0 }

proctype Claim(byte c) {
	byte asked;

	do
	:: atomic { asked < ASKS -> asked++; send(c); acquires[c]++ }
	:: atomic { me[c].granted -> trustIt(c); if :: me[c].trust -> goto held :: else fi }
	:: goto done /* refused, or tired of waiting */
	od;
held:	do
	:: atomic { me[c].trust && !me[c].waits -> send(c); renews[c] = me[c].token }
	:: atomic { me[c].trust && me[c].granted -> trustIt(c) }
	:: atomic { me[c].trust && me[c].waits && !me[c].granted -> me[c].waits = 0; me[c].age = 0; me[c].late = 0 } /* no reply in time */
	:: atomic { me[c].trust && writing[c] == 0 -> writing[c] = me[c].token; writes[c] = place[c] }
	:: goto done /* lost, or not needed any more */
	od;
done:	atomic {
		me[c].trust = 0; me[c].token = 0; me[c].missed = 0;
		me[c].waits = 0; me[c].granted = 0; me[c].reply = 0; me[c].age = 0; me[c].late = 0;
		releases[c] = 1 }
}

init { atomic { SETTINGS; run Claim(1); run Claim(2); if :: CLAIMS == 3 -> run Claim(3) :: else fi; run World() } }
