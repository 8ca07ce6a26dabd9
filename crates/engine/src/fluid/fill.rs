//! Progressive filling of a whole component: the last resort if passing levels from link to link
//! takes too long.

use super::core::Core;

/// The state of a link while its component is filled.
#[derive(Debug, Clone, Copy, Default)]
struct Filling {
    left: f64,
    /// Σ load of the members that still rise, and the number of these members.
    load: f64,
    rising: usize,
}

impl<T: Copy> Core<T> {
    /// Solves all links that are connected with `root` or with a link in the queue; empties the
    /// queue.
    #[cold]
    pub(super) fn fill(&mut self, root: u32) {
        let mut roots = vec![root];
        roots.append(&mut self.queue);
        let (links, groups) = self.component(roots);
        for &link in &links {
            self.part(link);
        }
        self.queue.clear();
        for &link in &links {
            self.links[link as usize].queued = false;
        }
        for &group in &groups {
            self.freshen(group);
        }
        let levels = self.filled_levels(&links, &groups);
        for (&link, &level) in links.iter().zip(&levels) {
            self.links[link as usize].level = level;
        }
        for &link in &links {
            for place in 0..self.links[link as usize].members.len() {
                let elsewhere = self.elsewhere(self.links[link as usize].members[place].of);
                self.links[link as usize].members[place].elsewhere = elsewhere;
            }
            self.links[link as usize].impose();
            self.publish(link);
        }
        for &group in &groups {
            self.touch_group(group);
        }
    }

    /// Returns the links and the active groups that are connected with `roots`.
    fn component(&self, roots: Vec<u32>) -> (Vec<u32>, Vec<u32>) {
        let mut link_seen = vec![false; self.links.len()];
        let mut group_seen = vec![false; self.groups.len()];
        let (mut links, mut groups, mut next) = (Vec::new(), Vec::new(), roots);
        while let Some(link) = next.pop() {
            if std::mem::replace(&mut link_seen[link as usize], true) {
                continue;
            }
            links.push(link);
            for member in &self.links[link as usize].members {
                let group = self.uses[member.of as usize].group;
                if !std::mem::replace(&mut group_seen[group as usize], true) {
                    groups.push(group);
                    let uses = self.groups[group as usize].uses.clone();
                    next.extend(uses.map(|at| self.uses[at as usize].link));
                }
            }
        }
        (links, groups)
    }

    /// Returns the level of each of `links`. No link or group outside `links` and `groups` may be
    /// connected with them.
    fn filled_levels(&self, links: &[u32], groups: &[u32]) -> Vec<f64> {
        let mut filling = vec![Filling::default(); self.links.len()];
        let mut levels = vec![f64::INFINITY; self.links.len()];
        let mut rising = vec![false; self.groups.len()];
        for &link in links {
            let l = &self.links[link as usize];
            let load = l.members.iter().map(|m| m.load).sum();
            filling[link as usize] = Filling { left: l.limit, load, rising: l.members.len() };
        }
        for &group in groups {
            rising[group as usize] = true;
        }
        for _round in 0..links.len() + groups.len() + 1 {
            let full = links.iter().filter(|&&l| filling[l as usize].rising > 0).map(|&l| {
                let f = &filling[l as usize];
                (f.left.max(0.0) / f.load, l)
            });
            let full = full.min_by(|a, b| a.0.total_cmp(&b.0));
            let capped = groups.iter().filter(|&&g| rising[g as usize]);
            let capped = capped.map(|&g| (self.groups[g as usize].ceiling, g));
            let capped = capped.min_by(|a, b| a.0.total_cmp(&b.0));
            let Some((ceiling, group)) = capped else { break };
            let full = full.filter(|full| full.0 < ceiling);
            let stopped: Vec<u32> = match full {
                Some((level, link)) => {
                    levels[link as usize] = level;
                    let members = self.links[link as usize].members.iter();
                    let of = members.map(|m| self.uses[m.of as usize].group);
                    of.filter(|&g| rising[g as usize]).collect()
                }
                None => vec![group],
            };
            let level = full.map_or(ceiling, |full| full.0);
            for group in stopped {
                rising[group as usize] = false;
                self.stop(group, level, &mut filling);
            }
        }
        assert!(groups.iter().all(|&g| !rising[g as usize]), "every round stops a group");
        links
            .iter()
            .map(|&l| self.links[l as usize].alone().unwrap_or(levels[l as usize]))
            .collect()
    }

    /// Stops the rise of a group at `level`: from now on it uses a constant capacity of each of its
    /// links.
    fn stop(&self, group: u32, level: f64, filling: &mut [Filling]) {
        let flows = f64::from(self.groups[group as usize].settled);
        for at in self.groups[group as usize].uses.clone() {
            let u = &self.uses[at as usize];
            let f = &mut filling[u.link as usize];
            f.rising -= 1;
            f.load -= u.load * flows;
            if level.is_finite() {
                f.left -= u.load * flows * level;
            }
        }
    }
}
