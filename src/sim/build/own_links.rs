//! Which communicators have their links for themselves.

use crate::fluid::LinkId;
use crate::sim::communication::LinkUsers;
use crate::sim::program::ParallelRun;

use super::Builder;

impl Builder<'_, '_> {
    /// Tells the communicators whose links nothing else uses, once all is built.
    pub(super) fn own_links(&mut self) {
        let mut users = LinkUsers::new(&self.network);
        self.share_changing(&mut users);
        let groups = self.parts.groups.len() as u32;
        for (job, number) in self.parts.jobs.iter().zip(groups..) {
            if let Some(servers) = &job.servers {
                servers.ways.all_links().for_each(|link| users.share(link));
            }
            if let Some(parallel) = &job.parallel {
                self.claim_parallel(parallel, &mut users);
            }
            if let Some(sync) = &job.sync {
                match sync.ways.links_among(&sync.members()) {
                    Some(links) => links.iter().for_each(|link| users.claim(*link, number)),
                    None => sync.ways.all_links().for_each(|link| users.share(link)),
                }
            }
        }
        self.tell_alone(&users, groups);
    }

    /// Links that faults slow.
    fn share_changing(&self, users: &mut LinkUsers) {
        for fault in self.faults() {
            fault.links.iter().for_each(|(link, _)| users.share(*link));
        }
    }

    /// Links of a model that is spread over GPUs: of what stages send each other, and of its groups.
    fn claim_parallel(&self, parallel: &ParallelRun, users: &mut LinkUsers) {
        for (from, to) in parallel.sends() {
            parallel.ways.links_between(from, to).into_iter().for_each(|link| users.share(link));
        }
        for g in parallel.groups.clone() {
            match parallel.ways.links_among(&self.parts.groups[g as usize].members()) {
                Some(links) => links.iter().for_each(|link| users.claim(*link, g)),
                None => parallel.ways.all_links().for_each(|link| users.share(link)),
            }
        }
    }

    fn tell_alone(&mut self, users: &LinkUsers, groups: u32) {
        let is_alone = |links: Option<Vec<LinkId>>, number: u32| {
            links.is_some_and(|links| users.is_alone(&links, number))
        };
        for (job, number) in self.parts.jobs.iter_mut().zip(groups..) {
            if let Some(parallel) = &job.parallel {
                for g in parallel.groups.clone() {
                    let group = &mut self.parts.groups[g as usize];
                    if is_alone(parallel.ways.links_among(&group.members()), g) {
                        group.has_own_links();
                    }
                }
            }
            if let Some(sync) = &mut job.sync
                && is_alone(sync.ways.links_among(&sync.members()), number)
            {
                sync.has_own_links();
            }
        }
    }
}
