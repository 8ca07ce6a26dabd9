//! A fluid network: every shared resource is a link, and everything that uses it is a flow.
//!
//! A flow has work, a weight, a cap and a route: links, each with the capacity that a unit of work uses there. Rates are weighted
//! max-min fair: rate ÷ weight rises equally for all flows, and a flow stops at its cap or where a link that it uses is full. The
//! module is independent of what the links represent, such as networks, processors or disks. The rest of this page is for
//! maintainers.
//!
//! # Terms
//!
//! - **Level**: a rate ÷ weight [1/ps]; the level of a link is the one to which the link limits its groups.
//! - **Group**: all flows with one demand (route, weight, cap); they have one rate, so levels are found for groups.
//! - **Ceiling**: the level that the cap of a group allows, cap ÷ weight.
//! - **Use**: one group at one link of its route, whether or not the group is active.
//! - **Member**: an active group at one link of its route.
//! - **Load**: the capacity that a member, or one flow of its group, uses per unit of level.
//! - **Elsewhere**: the lowest level that the rest of a member's route and the ceiling of its group allow.
//! - **High** and **low**: a member is high at the link that limits it, and low at a link where it is limited elsewhere.
//! - **Contended**: a link with several members and a finite capacity; a group has each other link of its route alone.
//! - **Clock**: the integral of one level over time, which all groups with that limit share.
//! - **Home**: the clock that a group rides; it belongs to the link, cohort or ceiling that limits the group.
//! - **Value**: the work done per flow and weight since the group's origin; it equals the home's value + `offset`.
//! - **Key**: the value of the group at which a flow is done; the **head** of a group is the smallest key of its flows.
//! - **Path**: what can limit a group on a plain route: the tightest link that it has alone, and the one contended link,
//!   which is its **hub**.
//! - **Settled**: the number of active flows of a group that its links know of.
//! - **Dirty**: a group in which flows started or ended since the last settling (a call of `settle`).
//! - **Stale**: a group whose links that it has alone still show the load and level for an earlier number of flows.
//! - **Coupled**: a use whose group has another contended link, to which a new level of this link must be passed on.
//! - **Tie**: a use whose group is limited equally, up to rounding, by this link and elsewhere.
//! - **Follower**: a link whose level is a fixed function of the level of another link, its **leader**.
//! - **Cohort**: all followers of one leader with the same function; they share one clock.
//! - **Due**: a flow is due at the first whole picosecond at which its group's value reaches its key.
//!
//! # Invariants
//!
//! The invariants hold whenever `Core::unsettled` is false. Levels count as equal if they differ by rounding only (`SAME`).
//!
//! 1. A flow's key is its group's value at its start + work ÷ weight. Only `rebase` changes it, with the group's origin.
//! 2. The value of an active group never jumps: when its home changes, `offset` takes up the difference of the two clocks.
//! 3. `settled` equals `active` in each group. A group with active flows has a home and is a member of each link of its route;
//!    a group without active flows has no home and is no member.
//! 4. Each link, each ceiling and each cohort owns one clock. A group rides the clock of the lowest level among its ceiling
//!    and the links of its route. Among equal levels it keeps the clock that it rides already.
//! 5. A contended link limits nobody and has an infinite level, or it is full: Σ load · min(level, elsewhere) over its
//!    members equals its capacity, so that the rates of all flows there use it up. (For a follower, level is its true level.)
//! 6. At a contended link, high members ride the link's clock and low members do not; exceptions are listed in `tied`.
//! 7. At a link with one member, the level is capacity ÷ load, whatever limits the member. Sides and sums are not kept
//!    there, and start anew when the link becomes contended (`contend`).
//! 8. A clock with entries runs at the level of its owner. A clock without entries restarts at 0 with its first group.
//! 9. A group is filed once, in its home, under head - `offset`. `dues` has each clock whose first entry will be due.
//! 10. A group can be stale only after `readjust`; its home runs at the right level even then. Every function that needs a link
//!     that the group has alone first calls `freshen`: `apply`, `refresh_member`, `rehome`, `contend`, `set_capacity`, `fill`.
//! 11. A follower has a fixed capacity, no followers, and one low member: the group that its leader limits. Its `level` is
//!     the one at which it would limit that group too; its clock runs at its true level.
//! 12. A use is in `coupled` if its group has another contended link, except at a leader, for the group of a follower.
//! 13. Time never passes a due instant: `pass` asserts that all flows that were due before have been returned.
//!
//! # What `settle` assumes and guarantees
//!
//! On entry, all changes since the last settling happened at the present instant. `dirty` lists the groups in which flows started
//! or ended. `queue` lists the links whose capacity changed or that stopped following. `touched_groups` and `touched_clocks` list
//! the groups whose home, and the clocks whose rate or first entry, may have changed. All groups, links and clocks that are not
//! listed still fulfil the invariants, for the `settled` number of flows.
//!
//! On exit all four lists are empty and the invariants hold. `settle` moves no time and completes no flow. Without fast paths, it
//! calls `apply` for each dirty group, `relevel` for each queued link until none is left, then `rehome` for each touched group.
//! If one link is solved more than `patience` times, `fill` solves its whole component by progressive filling.
//!
//! # Fast paths
//!
//! `settle` tries `readjust`, `enter` and `exit` first, unless links are queued. They need a plain route: at most one contended
//! link, and no capacity that depends on the number of flows. The number in brackets is the processor time without the fast path
//! divided by the processor time with it, in a run of a scenario or in the row of `cargo bench --bench network` where the fast
//! path gains most.
//!
//! - `fast_path::readjust` instead of `apply`, `relevel` and `rehome`: if the group stays active and the same link or
//!   cap limits it before and after [scenario `yardstick`: 1.3].
//! - `fast_path::enter` instead of these three: if the group becomes active, and every link of its route but the hub is
//!   empty [`nic, one worker, thinking/16`: 1.69].
//! - `fast_path::exit` instead of these three: if the last flows end, and at least two members remain at the hub
//!   [`nic, one worker, thinking/16`: 1.38].
//! - `fast_path::knows_path` instead of `find_path`: if no link of an inactive group's route became or ceased to be
//!   contended [`nic, one worker, thinking/256`: 1.04].
//! - `link::recheck`, `try_join` and `try_leave` instead of `edit`, `join` and `leave` with `relevel`: if no member
//!   changes sides, no use is coupled (or the level stays), none is tied, and the link is no follower. `readjust`,
//!   `enter` and `exit` are built on them.
//! - `link::level::level_of_sides` instead of `water_fill`: if each member is on the right side and the sums have had few
//!   edits.
//! - `link::set_load_alone` and `alone` instead of `relevel` and `water_fill`: if the member has no competitor.
//! - `follow::follow` and `lead` instead of `refresh_member` and `relevel` for each follower: under invariant 11, while
//!   the leader's level is below that of the follower [`ring, thinking/256`: 5.4].
//! - `settle::reload` leaves out `rehome`: if the group stays high on the link of its home
//!   [`server, thinking/16`: 1.13].
//! - `finish::finish_only` instead of `sweep`: if exactly one flow is due, and its group's heap has no cancelled flow
//!   [`ring/16`: 1.14].
//! - `group::follow_head` instead of `refresh_head`: if the group's heap has no cancelled flow. With `settle::elsewhere` for
//!   routes of two links and `indexed_heap::update` of a single entry: [scenario `gradients`: 1.06].
//! - `indexed_heap::only_up_to` instead of `up_to`: if only the first entry is due.
//!
//! `prefetch` only fetches memory early and changes no result.
//!
//! # Example: one group on two links
//!
//! Link N has 6 units/s, link S has 8. Group G uses both, with weight 1; its flow of 20 units starts at 0 s. N allows level
//! 6, S allows 8, so G rides the clock of N. At 2 s an endless flow starts on S alone. S becomes contended, with level
//! 8 ÷ 2 = 4, and its clock restarts at 0. G moves there with `offset` 12, filed under 20 - 12 = 8. Its key stays 20.
//!
//! ```text
//! value of G
//!   20 | - - - - - - - - - - - - - - - - - - - *  key: 0 at the start + 20
//!   18 |                                  .    :
//!   16 |                             .         :  home: clock of S, slope 4, offset 12
//!   14 |                        .              :
//!   12 |                   *                   :  the home changes, the value does not jump
//!   10 |                .  :                   :
//!    8 |            .      :                   :  home: clock of N, slope 6, offset 0
//!    6 |         .         :                   :
//!    4 |      .            :                   :
//!    2 |  .                :                   :
//!    0 *-------------------+-------------------+--> time
//!      0 s                2 s                 4 s
//!      0 . . . . . . . . 12                      clock of N: without entries from 2 s on
//!                          0 . . . . . . . . . 8   clock of S: the entry of G is due at 8
//! ```
mod clock;
mod core;
mod demand;
mod fast_path;
mod fill;
mod finish;
mod follow;
mod group;
mod home;
mod indexed_heap;
mod link;
mod max_min;
mod network;
mod prefetch;
#[cfg(test)]
mod reference;
mod settle;
#[cfg(test)]
mod tests;
pub use demand::{Capacity, Demand, Finished, FlowId, GroupId, LinkId, LinkUse, Use};
pub use max_min::max_min_shares;
pub use network::Network;
