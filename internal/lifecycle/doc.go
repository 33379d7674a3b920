// Package lifecycle is the life of one lease, as its holder sees the lease. A Lease is a value: its methods are the inputs,
// all that can happen to a lease, and they return Effects, the steps that an engine then takes. The package has no lock,
// goroutine, context, clock or channel: the engine serializes the calls and passes the instant of each.
//
// The phases, which only move forward:
//
//	Claiming ──► Working ──► Ending ──► Releasing ──► Ended
//	    │           │           │                       ▲
//	    ▼           └───────────┴─────── lost ──────────┘
//	Abandoned
//
// The inputs, and their effects in each phase. Time passes with each input: an input of a lease that is not trusted any more
// loses the lease before anything else.
//
//	input           Claiming          Working, Ending                       Releasing            Ended
//	Unanswered      in doubt          -                                     -                    -
//	Granted         doubt is noted    -                                     -                    -
//	Begin           Working           -                                     -                    -
//	Abandon         Abandoned         -                                     -                    -
//	Due             -                 lost, or a renewal                    nothing              nothing
//	AskRenewal      -                 a renewal, or joins the one under way nothing              nothing
//	BeginRenewal    -                 the request                           no request           no request
//	Answered: yes   -                 trusted from the sending              its TTL is noted     a clean-up if lost
//	          no    -                 a retry before trust ends, or lost    in doubt             a clean-up if lost
//	          lost  -                 lost                                  nothing              nothing
//	RepliedLate     -                 metadata is in doubt                  the same             a clean-up if lost
//	WantTTL         -                 the next renewals carry the TTL       an error             an error
//	WantMetadata    -                 the next renewals carry the metadata  no effect            no effect
//	RenewNow        -                 a renewal is due                      nothing              nothing
//	EndWork         -                 Ending                                nothing              nothing
//	AskRelease      -                 Releasing                             the caller waits     the caller has the outcome
//	NextStep        -                 -                                     release, or shorten  the same, once more
//	Released        -                 -                                     Ended                -
//	HandOver        -                 Ended, if a fresh renewal succeeded   nothing              nothing
//	Lose            -                 Ended                                 nothing              nothing
//
// A renewal is trusted from the instant before its request was sent (trust.Window). A request without an answer may have
// been applied, and may be applied at any later time: it prolongs nothing, and the name is cleaned up if it may outlive the
// lease.
package lifecycle
