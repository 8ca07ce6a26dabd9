//! On which of a job's nodes the files of its data set lie, where not every node has all of them.

/// Which of a job's nodes have a file: of `n` nodes and `r` replicas, file `f` is on nodes `f`, `f + 1`, …,
/// `f + r − 1`, modulo `n`, so that all hold as many: chained declustering (H.-I. Hsiao and D. DeWitt, ICDE
/// 1990).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Replicas {
    /// Nodes; at least 1.
    pub nodes: u64,
    /// Nodes that have each file, from 1 to all.
    pub each: u64,
}

impl Replicas {
    /// Every node has every file.
    pub const EVERYWHERE: Replicas = Replicas { nodes: 1, each: 1 };

    /// How many nodes `node` is behind the first one that has `file`.
    fn behind(self, node: u64, file: u64) -> u64 {
        (node % self.nodes + self.nodes - file % self.nodes) % self.nodes
    }

    /// Whether `node` has `file`.
    #[must_use]
    pub fn holds(self, node: u64, file: u64) -> bool {
        self.behind(node, file) < self.each
    }

    /// The node that `node` reads `file` from: itself if it has it, otherwise those that have it in turns.
    #[must_use]
    pub fn source(self, node: u64, file: u64) -> u64 {
        if self.holds(node, file) {
            return node;
        }
        let turn = (node + file / self.nodes) % self.each;
        (file % self.nodes + turn) % self.nodes
    }

    /// The first file from `file` on that `node` has.
    #[must_use]
    pub fn next_held(self, node: u64, file: u64) -> u64 {
        let behind = self.behind(node, file);
        if behind < self.each { file } else { file + (behind + 1 - self.each) }
    }

    /// How many of the first `files` files `node` has.
    #[must_use]
    pub fn held(self, node: u64, files: u64) -> u64 {
        let (node, rest) = (node % self.nodes, files % self.nodes);
        let last = (node + 1).min(rest);
        let before = last.saturating_sub((node + 1).saturating_sub(self.each));
        // Those that begin among the last nodes and go on at the first.
        let wrapped = self.each.saturating_sub(node + 1);
        let behind = rest.saturating_sub(self.nodes - wrapped);
        files / self.nodes * self.each + before + behind
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all() -> impl Iterator<Item = Replicas> {
        (1..9).flat_map(|nodes| (1..=nodes).map(move |each| Replicas { nodes, each }))
    }

    #[test]
    fn each_file_is_on_as_many_nodes_and_each_node_reads_it_from_one_that_has_it() {
        for of in all() {
            for file in 0..50 {
                let holders = (0..of.nodes).filter(|node| of.holds(*node, file)).count();
                assert_eq!(holders as u64, of.each, "{of:?}");
                for node in 0..of.nodes {
                    let source = of.source(node, file);
                    assert!(of.holds(source, file), "{of:?}");
                    assert!(source == node || !of.holds(node, file), "{of:?}");
                }
            }
        }
    }

    #[test]
    fn what_a_node_has_is_what_is_counted() {
        for of in all() {
            for (node, files) in (0..of.nodes).flat_map(|node| (0..30).map(move |f| (node, f))) {
                let held: Vec<u64> = (0..files).filter(|file| of.holds(node, *file)).collect();
                assert_eq!(of.held(node, files), held.len() as u64, "{of:?} {node} {files}");
                let (mut found, mut next) = (Vec::new(), of.next_held(node, 0));
                while next < files {
                    found.push(next);
                    next = of.next_held(node, next + 1);
                }
                assert_eq!(found, held, "{of:?} {node}");
            }
        }
    }

    #[test]
    fn those_that_have_a_file_give_it_to_others_in_turns() {
        // Expectation: of files on the same nodes each node reads as many from each of these, so that none
        // is asked more than others.
        for of in all() {
            for (node, file) in (0..of.nodes).flat_map(|node| (0..of.nodes).map(move |f| (node, f)))
            {
                let from = (0..3 * of.each).map(|i| of.source(node, file + of.nodes * i));
                let mut asked = vec![0; of.nodes as usize];
                from.for_each(|source| asked[source as usize] += 1);
                let expected = if of.holds(node, file) { 3 * of.each } else { 3 };
                assert!(asked.iter().all(|n| *n == 0 || *n == expected), "{of:?}: {asked:?}");
            }
        }
    }
}
