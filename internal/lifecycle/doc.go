// Package lifecycle is the state machine of one lease, on the side of its holder. A Lease is a value. Its methods are the inputs,
// which are all that can happen to a lease. They return Effects, the steps that an engine then takes. The package has no lock,
// goroutine, context, clock or channel: the engine serializes the calls and passes the instant of each.
//
// The phases, which only move forward:
//
//	Claiming ──► Working ──► Ending ──► Releasing ──► Ended
//	    │           │           │                       ▲
//	    ▼           └───────────┴─────── lost ──────────┘
//	Abandoned
//
// The inputs, and their effects in each phase. Expire, Due, BeginRenewal and AskRelease first lose a lease whose trust has run
// out. The engine sends Expire before AskRenewal and HandOver.
//
//	input           Claiming          Working, Ending                       Releasing            Ended
//	Unanswered      outcome unknown   -                                     -                    -
//	Granted         noted if unknown  -                                     -                    -
//	Begin           Working           -                                     -                    -
//	Abandon         Abandoned         -                                     -                    -
//	Expire          -                 lost if trust has run out             nothing              nothing
//	Due             -                 a renewal that is due                 nothing              nothing
//	AskRenewal      -                 a renewal, or joins the one under way nothing              nothing
//	BeginRenewal    -                 the request                           no request           no request
//	Answered: yes   -                 trusted from the sending              its TTL is noted     a clean-up if lost
//	          no    -                 a retry before trust ends, or lost    outcome unknown      a clean-up if lost
//	          lost  -                 lost                                  nothing              nothing
//	RepliedLate     nothing           metadata is unknown                   the same             a clean-up if lost
//	WantTTL         -                 the next renewals carry the TTL       -                    -
//	WantMetadata    -                 the next renewals carry the metadata  no renewal follows   no renewal follows
//	RenewNow        -                 a renewal is due                      nothing              nothing
//	EndWork         -                 Ending                                nothing              nothing
//	AskRelease      -                 Releasing                             the phase before     the phase before
//	NextStep        -                 -                                     release, or shorten  the same, after Close
//	Released        -                 -                                     Ended                -
//	HandOver        -                 Ended                                 -                    -
//	Lose            -                 Ended                                 nothing              nothing
//
// In the phase Abandoned, RepliedLate returns a clean-up. The engine never sends an input where the table has "-". The table
// leaves out four inputs that follow others: StartRenewal after AskRenewal, Settle after a renewal that was not sent,
// AwaitTimedOut after an AskRelease that awaits a renewal, and AfterRelease, which returns the clean-up of a release.
//
// A renewal is trusted from the instant before its request was sent (trust.Window). A request without an answer may have
// been applied, and may be applied at any later time: it does not extend the trust, and the name is cleaned up if it may outlive
// the lease. Tries is the state machine of such a clean-up.
package lifecycle
