//! Where keys stand in a file: patterns of keys, filled in by the scenario and the file.

use super::Editor;
use crate::Scenario;
use crate::document::{Document, Kind, NodeId, ROOT, quoted};

/// Part of where a key stands.
#[derive(Debug, Clone, Copy)]
pub enum Part {
    /// Keys of every scenario, with dots between: `cluster.network`.
    Key(&'static str),
    /// The name that the user gave to a storage, a job or the like.
    Name(fn(&Scenario, At) -> Option<String>),
    /// Keys that depend on the scenario, with dots between: `tf-queue.threads` or `pytorch.workers`.
    Chosen(fn(&Scenario, At) -> Option<&'static str>),
    /// The kind that the file writes at this place, as `tf-queue` below `loader`; where it writes none, the kind that the function
    /// returns.
    Kind(Option<fn(&Scenario, At) -> Option<&'static str>>),
    /// Each element of a list, or each table under a user's name, that writes the rest of the key.
    Each,
}

/// What of the scenario a lever is about; a lever reads only the indices that its pattern uses.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct At {
    /// Index of the job.
    pub job: usize,
    /// Index of the storage.
    pub storage: usize,
    /// Index of an element of another list: a fault, a background load, a group of nodes, a stage of a loader.
    pub element: usize,
}

/// Returns the name of the job.
#[must_use]
pub fn job_name(scenario: &Scenario, at: At) -> Option<String> {
    scenario.jobs.get(at.job).map(|job| job.name.clone())
}

/// Returns the name of the storage.
#[must_use]
pub fn storage_name(scenario: &Scenario, at: At) -> Option<String> {
    scenario.storage.get(at.storage).map(|storage| storage.name.clone())
}

/// Returns the kind of the storage.
#[must_use]
pub fn storage_kind(scenario: &Scenario, at: At) -> Option<&'static str> {
    scenario.storage.get(at.storage).map(|storage| storage.kind)
}

/// A place while it is being looked up: its keys so far, and its node if the file has it.
#[derive(Debug, Clone)]
struct Found {
    path: Vec<String>,
    node: Option<NodeId>,
    /// Whether a part was [`Part::Each`], so that only places that the file writes count.
    is_one_of_several: bool,
}

impl Editor {
    /// Returns the dotted keys of the places that a pattern names, in the order of the file. Names are quoted as TOML needs it, and
    /// each key names one place. None if a part is missing from the scenario, or if no element writes a key with [`Part::Each`].
    #[must_use]
    pub fn keys(&self, pattern: &[Part], (scenario, at): (&Scenario, At)) -> Vec<String> {
        let mut found =
            vec![Found { path: Vec::new(), node: Some(ROOT), is_one_of_several: false }];
        for part in pattern {
            let below = |place: Found| self.below(place, *part, (scenario, at));
            found = found.into_iter().flat_map(below).collect();
        }
        let is_there = |place: &Found| !place.is_one_of_several || place.node.is_some();
        // The path of a node that is there uses the index of an element whose name is not its own.
        let key = |place: Found| match place.node {
            Some(node) => self.document.path(node),
            None => place.path.iter().map(|part| quoted(part)).collect::<Vec<_>>().join("."),
        };
        let keys: Vec<String> = found.into_iter().filter(is_there).map(key).collect();
        keys.into_iter().filter(|key| self.names_one(key)).collect()
    }

    /// Returns whether a key names one place, which need not be written.
    fn names_one(&self, key: &str) -> bool {
        let path = crate::dotted::split_key(key);
        path.is_some_and(|path| self.document.find(&path).len() <= 1)
    }

    fn below(&self, place: Found, part: Part, (scenario, at): (&Scenario, At)) -> Vec<Found> {
        let document = &self.document;
        let keys = |keys: &str| -> Vec<Found> {
            vec![keys.split('.').fold(place.clone(), |place, key| step(document, place, key))]
        };
        let one = |key: &str| vec![step(document, place.clone(), key)];
        match part {
            Part::Key(of) => keys(of),
            Part::Name(of) => of(scenario, at).map_or(Vec::new(), |name| one(&name)),
            Part::Chosen(of) => of(scenario, at).map_or(Vec::new(), keys),
            Part::Kind(or) => {
                let written = place.node.and_then(|node| kind(document, node));
                let assumed = || or.and_then(|of| of(scenario, at)).map(str::to_owned);
                written.or_else(assumed).map_or(Vec::new(), |kind| one(&kind))
            }
            Part::Each => {
                let children = place.node.map_or(&[][..], |node| document.children(node));
                let each = children.iter().map(|&child| Found {
                    path: place.path.clone(),
                    node: Some(child),
                    is_one_of_several: true,
                });
                each.collect()
            }
        }
    }
}

/// Returns the place with this key, or element of this name or index, below `place`.
fn step(document: &Document, mut place: Found, key: &str) -> Found {
    place.node = place.node.and_then(|node| match &document.node(node).kind {
        Kind::List(elements) => document.element(elements, key),
        _ => document.member(node, key),
    });
    place.path.push(key.to_owned());
    place
}

/// Returns the kind that the value of a node names: `{ tf-queue = { … } }` or `"tf-queue"`.
fn kind(document: &Document, node: NodeId) -> Option<String> {
    match (&document.node(node).kind, document.children(node)) {
        (Kind::Text(text), _) => Some(text.clone()),
        (Kind::Table(_), &[one]) => Some(document.node(one).key.clone()),
        _ => None,
    }
}
