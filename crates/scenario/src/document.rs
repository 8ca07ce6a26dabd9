//! A parsed scenario file as a tree; every node of the tree knows its position in the file.

use super::overrides::{Edit, Override};
use super::renamed::{self, new_name};
use super::value::{Tree, Value};
use std::collections::BTreeSet;
use std::ops::Range;

/// Index of a document node.
pub(super) type NodeId = usize;

/// The root table.
pub(super) const ROOT: NodeId = 0;

/// A document node: a key with its value, or an element of an array.
#[derive(Debug, Clone)]
pub(super) struct Node {
    /// Table or array that contains the node; the root's parent is the root itself.
    pub(super) parent: NodeId,
    /// Key of the node; empty for elements of arrays.
    pub(super) key: String,
    /// Position of the key in the file [B from the start].
    pub(super) key_span: Range<usize>,
    /// Position of the value in the file [B from the start].
    pub(super) span: Range<usize>,
    /// Index of the override that added or changed the node; `None` if the node is as in the file.
    pub(super) origin: Option<usize>,
    /// Value of the node.
    pub(super) kind: Kind,
}

/// Value of a document node; tables keep the order of the file.
#[derive(Debug, Clone)]
pub(super) enum Kind {
    Text(String),
    Integer(i128),
    Float(f64),
    Boolean(bool),
    Date(String),
    List(Vec<NodeId>),
    Table(Vec<NodeId>),
}

/// All nodes of a parsed scenario file; never empty, because there is a root.
#[derive(Debug, Clone)]
pub(super) struct Document {
    nodes: Vec<Node>,
    /// A remark for each old name of a key that the file or an override uses.
    old_names: BTreeSet<String>,
    /// Indices of the overrides that remove a key that is not there.
    removed_nothing: Vec<usize>,
}

impl Document {
    /// Creates a document with an empty root table that spans the bytes `span` of the file.
    pub(super) fn new(span: Range<usize>) -> Self {
        let root = Node {
            parent: ROOT,
            key: String::new(),
            key_span: 0..0,
            span,
            origin: None,
            kind: Kind::Table(Vec::new()),
        };
        Self { nodes: vec![root], old_names: BTreeSet::new(), removed_nothing: Vec::new() }
    }

    /// Returns the node with this index.
    pub(super) fn node(&self, id: NodeId) -> &Node {
        &self.nodes[id]
    }

    /// Adds a node below its parent and returns its index.
    pub(super) fn push(&mut self, node: Node) -> NodeId {
        let id = self.nodes.len();
        if let Kind::List(children) | Kind::Table(children) = &mut self.nodes[node.parent].kind {
            children.push(id);
        }
        self.nodes.push(node);
        id
    }

    /// Returns the present name of the key `key` of a table: if `key` is an old name, the new one.
    pub(super) fn present_name(&mut self, table: NodeId, key: &str) -> String {
        let Some((new, remark)) = self.renamed(table, key) else { return key.to_owned() };
        self.old_names.insert(remark);
        new.to_owned()
    }

    /// Returns the new name of the key `key` of a table, and the remark that it has one; `None` if it has none.
    fn renamed(&self, table: NodeId, key: &str) -> Option<(&'static str, String)> {
        let path = self.table_path(table);
        let new = new_name(&path, key)?;
        Some((new, renamed::remark(&path, key, new)))
    }

    /// Returns the path of a table, without names or positions of array elements.
    fn table_path(&self, mut table: NodeId) -> Vec<&str> {
        let mut path = Vec::new();
        while table != ROOT {
            let Node { key, parent, .. } = self.node(table);
            if !matches!(self.node(*parent).kind, Kind::List(_)) {
                path.push(key.as_str());
            }
            table = *parent;
        }
        path.reverse();
        path
    }

    /// Returns a remark for each old name of a key that the file or an override uses.
    pub(super) fn old_names(&self) -> impl Iterator<Item = &String> {
        self.old_names.iter()
    }

    /// Puts the children of a table in the order of the file.
    pub(super) fn sort(&mut self, table: NodeId) {
        let Kind::Table(mut children) =
            std::mem::replace(&mut self.nodes[table].kind, Kind::Boolean(false))
        else {
            return;
        };
        children.sort_by_key(|&child| self.nodes[child].key_span.start);
        self.nodes[table].kind = Kind::Table(children);
    }

    /// Returns the members of a table or the elements of an array; none for other values.
    pub(super) fn children(&self, id: NodeId) -> &[NodeId] {
        match &self.node(id).kind {
            Kind::List(children) | Kind::Table(children) => children,
            _ => &[],
        }
    }

    /// Moves a node to the root table.
    pub(super) fn lift(&mut self, id: NodeId) {
        let parent = self.nodes[id].parent;
        if let Kind::Table(children) = &mut self.nodes[parent].kind {
            children.retain(|&child| child != id);
        }
        self.nodes[id].parent = ROOT;
        if let Kind::Table(children) = &mut self.nodes[ROOT].kind {
            children.push(id);
        }
    }

    /// Returns the member of a table with this key.
    pub(super) fn member(&self, table: NodeId, key: &str) -> Option<NodeId> {
        let is_table = matches!(self.node(table).kind, Kind::Table(_));
        self.children(table).iter().copied().find(|&id| is_table && self.node(id).key == key)
    }

    /// Returns the text of a node, if it is text.
    pub(super) fn text(&self, id: NodeId) -> Option<&str> {
        match &self.node(id).kind {
            Kind::Text(text) => Some(text),
            _ => None,
        }
    }

    /// Returns the key of a node as `--set` takes it: `job.lenet.batch`.
    pub(super) fn path(&self, mut id: NodeId) -> String {
        let mut parts = Vec::new();
        while id != ROOT {
            let node = self.node(id);
            parts.push(match &self.node(node.parent).kind {
                Kind::List(elements) => self.element_name(id, elements),
                _ => quoted(&node.key),
            });
            id = node.parent;
        }
        parts.reverse();
        parts.join(".")
    }

    /// Returns the name of an element, or its index if it has no name or shares it with an element before it.
    fn element_name(&self, id: NodeId, elements: &[NodeId]) -> String {
        match self.member(id, "name").and_then(|name| self.text(name)) {
            Some(name) if self.element(elements, name) == Some(id) => quoted(name),
            _ => elements.iter().position(|&other| other == id).unwrap_or(0).to_string(),
        }
    }

    /// Makes the change of override number `index`.
    pub(super) fn apply(&mut self, change: &Override, index: usize) {
        match change.edit() {
            Edit::Set(value) => self.set(change.path(), value, index),
            Edit::Unset => {
                let mut old_names = Vec::new();
                let found = self.find_with(change.path(), &mut old_names);
                self.old_names.extend(old_names);
                if found.is_empty() {
                    self.removed_nothing.push(index);
                }
                found.into_iter().for_each(|id| self.remove(id));
            }
        }
    }

    /// Returns the indices of the overrides that remove a key that is not there.
    pub(super) fn removed_nothing(&self) -> &[usize] {
        &self.removed_nothing
    }

    /// Returns the nodes at `path`: of an array on the path that is not the last part, the element that the next part names, or
    /// all elements.
    pub(super) fn find(&self, path: &[String]) -> Vec<NodeId> {
        self.find_with(path, &mut Vec::new())
    }

    /// As [`Document::find`]; adds a remark for each old name of a key on the path.
    fn find_with(&self, path: &[String], old_names: &mut Vec<String>) -> Vec<NodeId> {
        let mut at = vec![ROOT];
        for key in path {
            at = at.into_iter().flat_map(|table| self.find_below(table, key, old_names)).collect();
        }
        at
    }

    fn find_below(&self, id: NodeId, key: &str, old_names: &mut Vec<String>) -> Vec<NodeId> {
        match &self.node(id).kind {
            Kind::List(elements) => match self.element(elements, key) {
                Some(one) => vec![one],
                None => elements.iter().flat_map(|&e| self.find_below(e, key, old_names)).collect(),
            },
            Kind::Table(_) => {
                let renamed = self.renamed(id, key);
                let new = renamed.as_ref().map_or(key, |(new, _)| new);
                let found = self.member(id, new);
                old_names.extend(renamed.map(|(_, remark)| remark));
                found.into_iter().collect()
            }
            _ => Vec::new(),
        }
    }

    /// Removes a node from the table or array that holds it. An array of tables whose last element is removed goes too, as
    /// `[[fault]]` goes from a file with its only entry.
    fn remove(&mut self, id: NodeId) {
        let parent = self.nodes[id].parent;
        if let Kind::List(children) | Kind::Table(children) = &mut self.nodes[parent].kind {
            children.retain(|&child| child != id);
        }
        let was_table = matches!(self.node(id).kind, Kind::Table(_));
        let is_empty = matches!(&self.node(parent).kind, Kind::List(rest) if rest.is_empty());
        if was_table && is_empty {
            self.remove(parent);
        }
    }

    /// Sets the value at `path`, and adds tables that are missing on the way. If an array lies on the path, sets the value in
    /// every element, unless the path names one. Changed and added nodes are marked with `origin`, the index of the override.
    pub(super) fn set(&mut self, path: &[String], value: &Value, origin: usize) {
        let mut at = vec![ROOT];
        for key in path {
            at = at.into_iter().flat_map(|table| self.descend(table, key, origin)).collect();
        }
        for id in at {
            self.assign(id, value.tree(), origin);
        }
    }

    /// Returns the nodes that `key` refers to below `id`; adds them if they are missing.
    fn descend(&mut self, id: NodeId, key: &str, origin: usize) -> Vec<NodeId> {
        if let Kind::List(elements) = &self.node(id).kind
            && !elements.is_empty()
        {
            let elements = elements.clone();
            if let Some(one) = self.element(&elements, key) {
                return vec![one];
            }
            return elements.into_iter().flat_map(|e| self.descend(e, key, origin)).collect();
        }
        let key = &self.present_name(id, key);
        if let Some(member) = self.member(id, key) {
            return vec![member];
        }
        if !matches!(self.node(id).kind, Kind::Table(_)) {
            self.nodes[id].kind = Kind::Table(Vec::new());
            self.nodes[id].origin = Some(origin);
        }
        vec![self.add(id, key, Kind::Table(Vec::new()), origin)]
    }

    /// Returns the element with the name `key`, otherwise the element whose index (from 0) is `key`.
    pub(super) fn element(&self, elements: &[NodeId], key: &str) -> Option<NodeId> {
        let named = |&&id: &&NodeId| {
            self.member(id, "name").and_then(|name| self.text(name)).is_some_and(|n| n == key)
        };
        let position = || elements.get(key.parse::<usize>().ok()?);
        elements.iter().find(named).or_else(position).copied()
    }

    fn add(&mut self, parent: NodeId, key: &str, kind: Kind, origin: usize) -> NodeId {
        self.push(Node {
            parent,
            key: key.to_owned(),
            key_span: 0..0,
            span: 0..0,
            origin: Some(origin),
            kind,
        })
    }

    fn assign(&mut self, id: NodeId, tree: &Tree, origin: usize) {
        self.nodes[id].origin = Some(origin);
        self.nodes[id].kind = match tree {
            Tree::Text(text) => Kind::Text(text.clone()),
            Tree::Integer(value) => Kind::Integer(*value),
            Tree::Float(value) => Kind::Float(*value),
            Tree::Boolean(value) => Kind::Boolean(*value),
            Tree::Date(text) => Kind::Date(text.clone()),
            Tree::List(_) => Kind::List(Vec::new()),
            Tree::Table(_) => Kind::Table(Vec::new()),
        };
        let unset = Kind::Boolean(false);
        match tree {
            Tree::List(elements) => {
                for element in elements {
                    let child = self.add(id, "", unset.clone(), origin);
                    self.assign(child, element, origin);
                }
            }
            Tree::Table(members) => {
                for (key, member) in members {
                    let key = &self.present_name(id, key);
                    let child = self.add(id, key, unset.clone(), origin);
                    self.assign(child, member, origin);
                }
            }
            _ => {}
        }
    }

    /// Returns the value of a node, without positions.
    pub(super) fn tree(&self, id: NodeId) -> Tree {
        let node = self.node(id);
        let key = |id: NodeId| self.node(id).key.clone();
        match &node.kind {
            Kind::Text(text) => Tree::Text(text.clone()),
            Kind::Integer(value) => Tree::Integer(*value),
            Kind::Float(value) => Tree::Float(*value),
            Kind::Boolean(value) => Tree::Boolean(*value),
            Kind::Date(text) => Tree::Date(text.clone()),
            Kind::List(elements) => Tree::List(elements.iter().map(|&e| self.tree(e)).collect()),
            Kind::Table(members) => {
                Tree::Table(members.iter().map(|&m| (key(m), self.tree(m))).collect())
            }
        }
    }

    /// Returns a document with only the tables and arrays along `path`, which is enough to check one override by itself. Also
    /// returns the path in this document: it leaves out names of elements, because each array has only one element.
    pub(super) fn skeleton(&self, path: &[String]) -> (Self, Vec<String>) {
        let mut rest = Vec::new();
        let mut skeleton = Self::new(self.node(ROOT).span.clone());
        let (mut from, mut to) = (Some(ROOT), ROOT);
        for key in path {
            let Some(mut here) = from else {
                rest.push(key.clone());
                continue;
            };
            if let Kind::List(elements) = &self.node(here).kind {
                let Some(&first) = elements.first() else {
                    rest.push(key.clone());
                    from = None;
                    continue;
                };
                let named = self.element(elements, key);
                here = named.unwrap_or(first);
                to = skeleton.push(Node { parent: to, ..self.bare(here) });
                if named.is_some() {
                    from = named;
                    continue;
                }
            }
            let key = skeleton.present_name(to, key);
            from = self.member(here, &key);
            rest.push(key);
            if let Some(next) = from {
                to = skeleton.push(Node { parent: to, ..self.bare(next) });
            }
        }
        (skeleton, rest)
    }

    /// Returns a node without its children.
    fn bare(&self, id: NodeId) -> Node {
        let node = self.node(id);
        let kind = match &node.kind {
            Kind::List(_) => Kind::List(Vec::new()),
            Kind::Table(_) => Kind::Table(Vec::new()),
            scalar => scalar.clone(),
        };
        Node { kind, key: node.key.clone(), key_span: 0..0, span: 0..0, ..*node }
    }
}

/// Returns a key as TOML writes it: quoted if necessary.
pub(super) fn quoted(key: &str) -> String {
    let bare = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
    if !key.is_empty() && key.chars().all(bare) {
        key.to_owned()
    } else {
        Tree::Text(key.to_owned()).to_string()
    }
}
