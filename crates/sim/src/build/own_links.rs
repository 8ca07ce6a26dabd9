//! Finds the communicators whose links nothing else uses.

use super::Builder;
use crate::communication::{Communicators, LinkUsers, RankRoutes};
use crate::ids::{CommunicatorId, Ids};
use crate::job_run::JobRun;

impl Builder<'_> {
    /// Marks the communicators whose links nothing else uses; to be called when everything is built.
    pub(super) fn own_links(&mut self) {
        let mut users = LinkUsers::new(&self.env.network);
        self.share_changing(&mut users);
        for (job, ways) in self.parts.jobs.iter().zip(&self.parts.communicators.ways) {
            let Some(ways) = ways else { continue };
            if !job.parts.servers.is_empty() {
                ways.all_links().for_each(|link| users.share(link));
            }
            share_sends(job, ways, &mut users);
            self.claim_links(job.parts.communicators, ways, &mut users);
        }
        self.tell_alone(&users);
    }

    /// Marks the links that faults slow as shared, because their capacity changes.
    fn share_changing(&self, users: &mut LinkUsers) {
        for fault in self.faults() {
            fault.links.iter().for_each(|(link, _)| users.share(*link));
        }
    }

    /// Registers each communicator as a user of the links of its collectives.
    fn claim_links(
        &self,
        communicators: Ids<CommunicatorId>,
        ways: &RankRoutes,
        users: &mut LinkUsers,
    ) {
        for c in communicators {
            match ways.links_among(&self.parts.communicators.all[c].members()) {
                Some(links) => links.iter().for_each(|link| users.claim(*link, c)),
                None => ways.all_links().for_each(|link| users.share(link)),
            }
        }
    }

    fn tell_alone(&mut self, users: &LinkUsers) {
        let Communicators { all, ways, .. } = &mut self.parts.communicators;
        for (job, ways) in self.parts.jobs.iter().zip(ways) {
            let Some(ways) = ways else { continue };
            for c in job.parts.communicators {
                let communicator = &mut all[c];
                let links = ways.links_among(&communicator.members());
                if links.is_some_and(|links| users.is_alone(&links, c)) {
                    communicator.has_own_links();
                }
            }
        }
    }
}

/// Marks as shared the links over which stages send each other activations.
fn share_sends(job: &JobRun, ways: &RankRoutes, users: &mut LinkUsers) {
    for (from, to) in job.spread.sends(job.stages() as usize) {
        ways.links_between(from, to).into_iter().for_each(|link| users.share(link));
    }
}
