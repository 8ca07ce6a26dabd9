//! Which of a job's nodes store the files of its data set, if not every node stores all of them.

/// Which of a job's nodes store a file. With `n` nodes and `r` replicas, file `f` is on nodes `f`, `f + 1`, …, `f + r − 1`,
/// modulo `n`, so that all nodes store equally many files: chained declustering (H.-I. Hsiao and D. DeWitt, ICDE 1990).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Replicas {
    /// Number of nodes; at least 1.
    pub nodes: u64,
    /// Number of nodes that store each file, from 1 to all.
    pub each: u64,
}

impl Replicas {
    /// Every node stores every file.
    pub const EVERYWHERE: Replicas = Replicas { nodes: 1, each: 1 };

    /// Returns the distance from the first node that stores `file` to `node`: the difference of their numbers, modulo the number
    /// of nodes.
    fn behind(self, node: u64, file: u64) -> u64 {
        (node % self.nodes + self.nodes - file % self.nodes) % self.nodes
    }

    /// Returns whether `node` stores `file`.
    #[must_use]
    pub fn holds(self, node: u64, file: u64) -> bool {
        self.behind(node, file) < self.each
    }

    /// Returns the node from which `node` reads `file`: `node` itself if it stores the file, otherwise one of the nodes that
    /// store the file, chosen round robin over files.
    #[must_use]
    pub fn source(self, node: u64, file: u64) -> u64 {
        if self.holds(node, file) {
            return node;
        }
        let turn = (node + file / self.nodes) % self.each;
        (file % self.nodes + turn) % self.nodes
    }

    /// Returns the first file at or after `file` that `node` stores.
    #[must_use]
    pub fn next_held(self, node: u64, file: u64) -> u64 {
        let behind = self.behind(node, file);
        if behind < self.each { file } else { file + (behind + 1 - self.each) }
    }

    /// Returns how many of the first `files` files are stored on `node`.
    #[must_use]
    pub fn held(self, node: u64, files: u64) -> u64 {
        let (node, rest) = (node % self.nodes, files % self.nodes);
        let last = (node + 1).min(rest);
        let before = last.saturating_sub((node + 1).saturating_sub(self.each));
        // Files whose replicas start on one of the last nodes and wrap around to the first nodes.
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
    fn each_file_has_all_its_replicas_and_is_read_from_a_node_that_stores_it() {
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
    fn file_counts_and_lists_of_each_node_agree_with_replica_placement() {
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
    fn nodes_that_store_a_file_serve_other_nodes_in_turns() {
        // Expectation: a node reads equally many files from each of the nodes that store them, so that no node gets more requests
        // than others.
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
