//! Tables of keys, read from a JSON Schema.

use serde_json::Value as Json;
use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// Placeholder for the user's names in a path.
pub(super) const NAME: &str = "NAME";

/// Definitions of the schema that many keys refer to and that have a section of their own: name in the schema, and title of the
/// section.
const SHARED: [(&str, &str); 1] = [("Kinds", "distribution")];

/// All tables of a file format.
#[derive(Debug)]
pub struct Tables<'s> {
    pub(super) schema: &'s Json,
    /// The tables, in the order of the page.
    pub tables: Vec<Table<'s>>,
    /// For each definition of the schema, the path of the section that describes it.
    pub(super) places: BTreeMap<&'s str, String>,
    /// For each path in `places`, the paths of all keys that refer to the definition described there.
    users: BTreeMap<String, BTreeSet<String>>,
}

/// A table of the reference. It lists either the keys of one table, or alternative kinds, of which a file contains one.
#[derive(Debug)]
pub struct Table<'s> {
    /// Dotted path of the table; empty for the top level.
    pub path: String,
    /// Description of the table.
    pub about: String,
    /// Whether `keys` are alternative kinds, of which a file contains one, rather than keys of one table.
    pub kinds: bool,
    /// Keys of the table, in the order of the schema.
    pub keys: Vec<Key<'s>>,
}

/// A key of a table.
#[derive(Debug)]
pub struct Key<'s> {
    /// Name of the key, without its table.
    pub name: String,
    /// Dotted path, in which `NAME` stands for the user's names.
    pub path: String,
    /// Whether a file must contain the key.
    pub required: bool,
    pub(super) node: &'s Json,
}

impl<'s> Tables<'s> {
    /// Returns the tables of a schema: the top level first, each table before the tables within it, shared definitions last.
    #[must_use]
    pub fn new(schema: &'s Json) -> Tables<'s> {
        let mut all =
            Tables { schema, tables: Vec::new(), places: BTreeMap::new(), users: BTreeMap::new() };
        all.place();
        let mut walk = Walk { all, shared: Vec::new() };
        walk.node(schema, "");
        let mut next = 0;
        // Shared definitions may refer to further shared definitions.
        while let Some((node, path)) = walk.shared.get(next).copied() {
            walk.node(node, path);
            next += 1;
        }
        walk.all
    }

    /// Chooses the section that describes each definition: shared types have sections of their own, any other definition is
    /// described at the shortest path that refers to it.
    fn place(&mut self) {
        let mut next = VecDeque::from([(self.schema, String::new())]);
        while let Some((mut node, mut path)) = next.pop_front() {
            if let Some(name) = definition(node) {
                if let Some(place) = self.places.get(name) {
                    self.users.entry(place.clone()).or_default().insert(path);
                    continue;
                }
                let shared = SHARED.iter().find(|(of, _)| *of == name);
                let place = shared.map_or_else(|| path.clone(), |(_, path)| (*path).to_owned());
                self.users.entry(place.clone()).or_default().insert(path);
                self.places.insert(name, place.clone());
                path = place;
                node = self.target(node);
            }
            next.extend(children(node).map(|(key, child)| match key {
                Some(key) => (child, below(&path, key)),
                None => (child, path.clone()),
            }));
        }
    }

    /// Returns the path of a key on the page, given its path in a file, which contains the user's own names and no list
    /// indices; `None` if the schema has no such key.
    #[must_use]
    pub fn canonical(&self, parts: &[&str]) -> Option<String> {
        let (mut node, mut path) = (self.schema, String::new());
        for part in parts {
            (node, path) = self.step(node, path, part)?;
        }
        Some(path)
    }

    /// Returns the member `part` of a schema node, and the path of that member.
    fn step(&self, node: &'s Json, path: String, part: &str) -> Option<(&'s Json, String)> {
        if let Some(name) = definition(node) {
            let path = self.places.get(name).cloned().unwrap_or(path);
            return self.step(self.target(node), path, part);
        }
        let inside = |(key, child): (Option<&'s str>, &'s Json)| match key {
            Some(key) if key == part => Some((child, below(&path, key))),
            Some(NAME) if node["properties"].is_null() => Some((child, below(&path, NAME))),
            Some(_) => None,
            None => self.step(child, path.clone(), part),
        };
        children(node).find_map(inside)
    }

    /// Returns the path of the section that describes the table of a kind, if there is one.
    pub(super) fn place_of_kind(&self, form: &Json) -> Option<&str> {
        let (_, member) = kind(form)?;
        let place = self.places.get(definition(member)?)?;
        self.tables.iter().any(|of| of.path == *place).then_some(place.as_str())
    }

    /// Returns all paths at which a table may be written: its own path, and paths below other keys that refer to the same
    /// definition.
    pub(super) fn users(&self, path: &str) -> BTreeSet<String> {
        let (mut around, mut rest) = (path, "");
        loop {
            if let Some(users) = self.users.get(around).filter(|users| users.len() > 1) {
                return users.iter().map(|user| format!("{user}{rest}")).collect();
            }
            match around.rfind('.') {
                Some(end) => (around, rest) = (&path[..end], &path[end..]),
                None => return BTreeSet::from([path.to_owned()]),
            }
        }
    }

    /// Returns all keys of all tables, in the order of the tables.
    pub fn keys(&self) -> impl Iterator<Item = &Key<'s>> {
        self.tables.iter().flat_map(|table| &table.keys)
    }

    /// Returns the schema node that the reference `node` points to, or `node` itself if it is no reference.
    pub(super) fn target(&self, node: &'s Json) -> &'s Json {
        let to = node["$ref"].as_str().and_then(|to| to.strip_prefix('#'));
        to.and_then(|to| self.schema.pointer(to)).unwrap_or(node)
    }
}

/// Returns the name of the definition that a schema node refers to, as in [`Tables::places`]: numbered variants of a shared
/// definition have one name. `None` if the node is no reference.
pub(super) fn definition(node: &Json) -> Option<&str> {
    let name = node["$ref"].as_str()?.rsplit('/').next()?;
    let plain = name.trim_end_matches(char::is_numeric);
    let shared = SHARED.iter().find(|(of, _)| *of == plain);
    Some(shared.map_or(name, |(of, _)| *of))
}

/// Returns the direct children of a schema node that is no reference: members with their keys (`NAME` if the user chooses the
/// name), and alternatives and list elements without a key.
fn children(node: &Json) -> impl Iterator<Item = (Option<&str>, &Json)> {
    let members = node["properties"].as_object().into_iter().flatten();
    let members = members.map(|(key, child)| (Some(key.as_str()), child));
    let others = node.get("additionalProperties").filter(|of| of.is_object());
    let others = others.map(|child| (Some(NAME), child));
    let inside = forms(node).chain(node.get("items")).map(|child| (None, child));
    members.chain(others).chain(inside)
}

/// Returns the alternatives that a schema node lists, except for null.
pub(super) fn forms(node: &Json) -> impl Iterator<Item = &Json> {
    let all = ["oneOf", "anyOf"].into_iter().filter_map(|forms| node[forms].as_array()).flatten();
    all.filter(|form| form["type"] != "null")
}

/// Returns the name and table of an alternative that is a kind: a table with exactly one key, which is required.
pub(super) fn kind(form: &Json) -> Option<(&String, &Json)> {
    let properties = form["properties"].as_object().filter(|all| all.len() == 1)?;
    form["required"].as_array().filter(|all| all.len() == 1)?;
    properties.iter().next()
}

/// Returns the description of a schema node, on one line.
pub(super) fn about(node: &Json) -> String {
    node["description"].as_str().unwrap_or("").split_whitespace().collect::<Vec<_>>().join(" ")
}

pub(super) fn below(path: &str, key: &str) -> String {
    if path.is_empty() { key.to_owned() } else { format!("{path}.{key}") }
}

struct Walk<'s> {
    all: Tables<'s>,
    /// Shared definitions that were found, with the paths of their sections.
    shared: Vec<(&'s Json, &'static str)>,
}

impl<'s> Walk<'s> {
    /// Adds the tables of the schema node at `path`.
    fn node(&mut self, node: &'s Json, path: &str) {
        if let Some(name) = definition(node) {
            let target = self.all.target(node);
            let shared = SHARED.iter().find(|(of, _)| *of == name);
            match (shared, self.all.places.get(name).is_some_and(|place| place == path)) {
                (Some((_, path)), _) if !self.shared.iter().any(|(_, other)| other == path) => {
                    self.shared.push((target, path));
                }
                // A table and a list of such tables are described once.
                (None, true) if !self.all.tables.iter().any(|of| of.path == path) => {
                    self.node(target, path);
                }
                _ => {}
            }
            return;
        }
        if node["properties"].is_object() {
            return self.table(node, path);
        }
        let kinds: Vec<_> = forms(node).filter_map(kind).collect();
        if !kinds.is_empty() {
            self.kinds(node, path);
        }
        for form in forms(node).filter(|form| kind(form).is_none()).chain(node.get("items")) {
            self.node(form, path);
        }
        for (name, member) in kinds {
            self.node(member, &below(path, name));
        }
        if let Some(others) = node.get("additionalProperties").filter(|of| of.is_object()) {
            self.node(others, &below(path, NAME));
        }
    }

    /// Adds the table of keys at `path`, and the tables within it.
    fn table(&mut self, node: &'s Json, path: &str) {
        let required = |key: &str| {
            let all = node["required"].as_array();
            all.is_some_and(|all| all.iter().any(|of| of == key))
        };
        let members: Vec<_> = node["properties"].as_object().into_iter().flatten().collect();
        if members.is_empty() {
            return;
        }
        let key = |(name, node): &(&String, &'s Json)| Key {
            name: (*name).clone(),
            path: below(path, name),
            required: required(name),
            node,
        };
        let keys = members.iter().map(key).collect();
        self.all.tables.push(Table {
            path: path.to_owned(),
            about: about(node),
            kinds: false,
            keys,
        });
        for (name, member) in members {
            self.node(member, &below(path, name));
        }
    }

    /// Adds the list of kinds at `path`.
    fn kinds(&mut self, node: &'s Json, path: &str) {
        let key = |form: &'s Json| {
            let (name, _) = kind(form)?;
            Some(Key { name: name.clone(), path: below(path, name), required: false, node: form })
        };
        let keys = forms(node).filter_map(key).collect();
        self.all.tables.push(Table {
            path: path.to_owned(),
            about: about(node),
            kinds: true,
            keys,
        });
    }
}
