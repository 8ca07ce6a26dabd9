//! Measures nodes that fell behind once more, in turn with two siblings each, before they are named.

use super::{AHEAD, End, Kind, Survey};
use crate::message::Task;
use forebay_calibrate::fit::{AGAIN, Behind};
use std::collections::BTreeSet;

/// Time for a probe of a node alone in a round [s].
const AGAIN_BUDGET: f64 = 2.0;
/// Number of siblings that are measured again in turn with a node.
const SIBLINGS: usize = 2;

impl Survey<'_> {
    /// Measures again what these nodes fell behind in. Samples have the label [`AGAIN`].
    pub(super) fn confirm(&mut self, behind: &[Behind]) -> Result<(), End> {
        for (number, of) in behind.iter().enumerate() {
            self.go_on()?;
            let rank = self.leaders.iter().copied().find(|rank| self.crew.node(*rank) == of.node);
            let Some(rank) = rank else { continue };
            let falls = |other: &Behind| other.quantity == of.quantity;
            let suspects: BTreeSet<&str> =
                behind.iter().filter(|other| falls(other)).map(|of| of.node.as_str()).collect();
            let is_fine = |rank: &&u32| !suspects.contains(self.crew.node(**rank).as_str());
            let siblings = self.leaders.iter().filter(is_fine).take(SIBLINGS).copied();
            let ranks: Vec<u32> = [rank].into_iter().chain(siblings).collect();
            let earlier = &behind[..number];
            let is_done = |names: &[&str]| {
                earlier.iter().any(|other| other.node == of.node && names.contains(&other.quantity))
            };
            match of.quantity {
                "send" | "receive" if !is_done(&["send", "receive"]) => self.pairs_again(&ranks)?,
                "read" => self.reads_again(&ranks)?,
                "write" => self.writes_again(&ranks)?,
                "core" | "decode" if !is_done(&["core", "decode"]) => {
                    self.alone_again(&ranks, "decode")?;
                }
                "copy" => self.alone_again(&ranks, "host")?,
                "disk" => self.alone_again(&ranks, "read")?,
                "step" => self.alone_again(&ranks, "step")?,
                _ => {}
            }
        }
        Ok(())
    }

    /// Runs transfers among all of `ranks`, one after the other in both directions.
    fn pairs_again(&mut self, ranks: &[u32]) -> Result<(), End> {
        for _ in 0..self.at_least() {
            for from in ranks {
                for to in ranks.iter().filter(|to| *to != from) {
                    self.go_on()?;
                    let names = [self.crew.node(*from), self.crew.node(*to)];
                    let labels = [
                        ("way", "alone"),
                        ("node", names[0].as_str()),
                        ("to", names[1].as_str()),
                        (AGAIN, "1"),
                    ];
                    let kind = Kind::new("pair", &labels, &[]);
                    let trial = self.trials(&kind);
                    for found in self.transfer(&[(*from, *to)])? {
                        self.record(&kind, trial, *from, found.count, found.seconds, &found)?;
                    }
                }
            }
        }
        Ok(())
    }

    fn reads_again(&mut self, ranks: &[u32]) -> Result<(), End> {
        self.prepare()?;
        let Some(load) = self.naming() else { return Ok(()) };
        let mut kind = self.kind(load, "shared-read");
        kind.labels.insert(AGAIN.to_owned(), "1".to_owned());
        for _ in 0..self.at_least() {
            for rank in ranks {
                self.go_on()?;
                let trial = self.trials(&kind);
                self.trial_of(&kind, load, trial, &[*rank])?;
            }
        }
        Ok(())
    }

    fn writes_again(&mut self, ranks: &[u32]) -> Result<(), End> {
        let of = self
            .journal
            .samples()
            .iter()
            .filter(|sample| sample.probe == "shared-write" && sample.setting("nodes") == 1.0);
        let most = of.max_by(|a, b| a.setting("streams").total_cmp(&b.setting("streams")));
        let Some(settings) = most.map(|sample| sample.settings.clone()) else { return Ok(()) };
        let mut kind = Kind::new("shared-write", &[(AGAIN, "1")], &[]);
        kind.settings = settings;
        let (streams, bytes) = (kind.settings["streams"] as usize, kind.settings["bytes"] as u64);
        for _ in 0..self.at_least() {
            for rank in ranks {
                self.go_on()?;
                let trial = self.trials(&kind);
                let start = self.crew.at(&[*rank], AHEAD)[0];
                let folder = self.folder_of(*rank);
                let tasks = vec![(*rank, Task::Checkpoint { folder, streams, bytes, start })];
                for found in self.work(tasks, 30.0)? {
                    self.record(&kind, trial, *rank, found.count, found.seconds, &found)?;
                }
            }
        }
        Ok(())
    }

    /// Runs a probe of each node alone again, on one node after the other, in rounds: what differs from round to round is no difference
    /// between nodes.
    fn alone_again(&mut self, ranks: &[u32], probe: &str) -> Result<(), End> {
        let rounds =
            (0..self.at_least()).flat_map(|round| ranks.iter().map(move |rank| (round, rank)));
        for (round, rank) in rounds {
            self.go_on()?;
            let only = vec![probe.to_owned()];
            let task = self.alone_task(*rank, only, Vec::new(), AGAIN_BUDGET);
            for found in self.alone_on(vec![task], AGAIN_BUDGET, Some(round + 1))? {
                found.map_err(End::Because)?;
            }
        }
        Ok(())
    }
}
