//! Keys that a user may change to make the same training faster: those whose declaration says that they are a limit or a choice.

use super::Editor;
use super::scale::scaled;
use crate::assumed::Assumed;
use crate::document::{Document, Kind, NodeId, ROOT, quoted};
use crate::overrides::Override;
use crate::role::Role;
use crate::value::{Tree, Value};
use forebay_model::units;
use serde_json::{Map, Value as Json};
use std::collections::BTreeMap;
use std::sync::OnceLock;

/// A key of a scenario that is a limit or a choice.
#[derive(Debug, Clone, PartialEq)]
pub struct Movable {
    /// The dotted key, as `--set` takes it.
    pub key: String,
    /// The path of the key in the schema, in which `NAME` stands for a name of the user's: `storage.NAME.file-server.bandwidth`.
    pub class: String,
    /// What the key is: a limit or a choice.
    pub role: Role,
    /// The value in the file, or the default if the file leaves the key out and the default is a value; `None` if there is neither.
    pub value: Option<Value>,
    /// Whether the file has the key.
    pub is_written: bool,
    /// Whether more of it is less work: its amount is a time, or the time that each of something takes.
    pub is_time: bool,
    /// All values, if the key takes one of a few words or a boolean; otherwise empty.
    pub words: Vec<Value>,
}

impl Movable {
    /// Returns the override that multiplies the value; `None` if there is no value, or no such multiple.
    #[must_use]
    pub fn times(&self, factor: f64) -> Option<Override> {
        let product = scaled(&self.value.as_ref()?.0, factor)?;
        Some(Override::new(&self.key, Value(product)))
    }

    /// Returns the overrides that put each of the other words at the key.
    #[must_use]
    pub fn others(&self) -> Vec<Override> {
        let other = |word: &&Value| Some(*word) != self.value.as_ref();
        let put = |word: &Value| Override::new(&self.key, word.clone());
        self.words.iter().filter(other).map(put).collect()
    }

    /// Returns the override that removes the key; `None` if the file does not have it.
    #[must_use]
    pub fn unset(&self) -> Option<Override> {
        self.is_written.then(|| Override::unset(&self.key))
    }

    /// Returns whether the value is a whole number.
    #[must_use]
    pub fn is_count(&self) -> bool {
        matches!(self.value, Some(Value(Tree::Integer(_))))
    }

    /// Returns the value as a number without its unit, if it is one.
    #[must_use]
    pub fn number(&self) -> Option<f64> {
        match &self.value.as_ref()?.0 {
            #[expect(clippy::cast_precision_loss, reason = "larger numbers are refused")]
            Tree::Integer(number) => Some(*number as f64),
            Tree::Float(number) => Some(*number),
            Tree::Text(text) => units::number(text),
            Tree::List(_) | Tree::Table(_) | Tree::Boolean(_) | Tree::Date(_) => None,
        }
    }
}

impl Editor {
    /// Returns the limits and choices that the file writes or leaves out, in the order of the schema; `defaults` are the defaults of the
    /// keys that it leaves out. Keys of tables that the file does not write, such as those of `failures`, are not among them.
    #[must_use]
    pub fn movable(&self, defaults: &[Assumed]) -> Vec<Movable> {
        static SCHEMA: OnceLock<Json> = OnceLock::new();
        let schema = SCHEMA.get_or_init(crate::schema);
        let defaults = defaults.iter().map(|of| (of.key.as_str(), of.value.as_str())).collect();
        let mut walk = Walk { schema, document: &self.document, defaults, found: Vec::new() };
        walk.visit(schema, &Place { node: Some(ROOT), key: String::new(), class: String::new() });
        walk.found
    }
}

impl Editor {
    /// Returns the dotted keys of the elements of the list at a key, in the order of the file; none if there is no list.
    #[must_use]
    pub fn elements(&self, key: &str) -> Vec<String> {
        let found = self.written(key).map(|(_, id)| id);
        let elements = match found.map(|id| &self.document.node(id).kind) {
            Some(Kind::List(elements)) => &elements[..],
            _ => &[],
        };
        elements.iter().map(|&element| self.document.path(element)).collect()
    }

    /// Returns the dotted key of the first key in the table at a key; `None` if there is none.
    #[must_use]
    pub fn first_below(&self, key: &str) -> Option<String> {
        let (_, id) = self.written(key)?;
        self.document.children(id).first().map(|child| self.document.path(*child))
    }

    /// Returns the dotted key with these parts, quoted as TOML needs it.
    #[must_use]
    pub fn key(&self, parts: &[&str]) -> String {
        parts.iter().map(|part| quoted(part)).collect::<Vec<_>>().join(".")
    }
}

/// Tables of what every cluster has, whether the file writes them or not: a profile may say how many cores a node has.
const EVERYWHERE: [&str; 2] = ["cluster.node", "cluster.network"];

/// A place in the file: its node, if the file has it, its dotted key, and the path of this key in the schema.
struct Place {
    node: Option<NodeId>,
    key: String,
    class: String,
}

impl Place {
    fn below(&self, node: Option<NodeId>, name: &str, class: &str) -> Place {
        let join = |above: &str, name: &str| match above {
            "" => name.to_owned(),
            above => format!("{above}.{name}"),
        };
        Place { node, key: join(&self.key, &quoted(name)), class: join(&self.class, class) }
    }
}

/// A walk through the schema and a document side by side.
struct Walk<'a> {
    schema: &'a Json,
    document: &'a Document,
    /// Defaults by key.
    defaults: BTreeMap<&'a str, &'a str>,
    found: Vec<Movable>,
}

impl<'a> Walk<'a> {
    /// Visits the keys below a place whose value has the form `of`.
    fn visit(&mut self, of: &'a Json, at: &Place) {
        let of = self.target(of);
        if let Some(properties) = of["properties"].as_object() {
            return self.table(properties, at);
        }
        let children = at.node.map_or(&[][..], |node| self.document.children(node));
        if of["additionalProperties"].is_object() {
            for &child in children {
                let below = at.below(Some(child), &self.document.node(child).key, "NAME");
                self.visit(&of["additionalProperties"], &below);
            }
        } else if let Some(items) = of.get("items") {
            for &child in children {
                let key = self.document.path(child);
                self.visit(items, &Place { node: Some(child), key, class: at.class.clone() });
            }
        } else if let Some(form) = self.form(of, at) {
            self.visit(form, at);
        }
    }

    fn table(&mut self, properties: &'a Map<String, Json>, at: &Place) {
        // A kind may be written as a word: `loader = "dali"`.
        let word = at.node.and_then(|node| self.document.text(node));
        for (key, property) in properties {
            let node = at.node.and_then(|node| self.document.member(node, key));
            let below = at.below(node, key, key);
            let is_kind = word == Some(key);
            match Role::of(property) {
                Some(role @ (Role::Limit | Role::Choice)) => {
                    let found = self.movable(property, &below, role);
                    self.found.push(found);
                    if node.is_some() || is_kind {
                        self.visit(property, &below);
                    }
                }
                // A table that is not written may still have keys with defaults: `cluster.network`.
                None if node.is_some() || is_kind || self.is_plain_table(property) => {
                    self.visit(property, &below);
                }
                Some(Role::Identity)
                    if node.is_some() || is_kind || EVERYWHERE.contains(&below.class.as_str()) =>
                {
                    self.visit(property, &below);
                }
                _ => {}
            }
        }
    }

    fn movable(&self, property: &'a Json, at: &Place, role: Role) -> Movable {
        let written = at.node.map(|node| Value(self.document.tree(node)));
        let default = || self.defaults.get(at.key.as_str()).and_then(|text| value_in(text));
        Movable {
            key: at.key.clone(),
            class: at.class.clone(),
            role,
            is_written: written.is_some(),
            value: written.or_else(default),
            is_time: is_time(property),
            words: self.words(property),
        }
    }

    /// Returns the words or booleans that a property takes.
    fn words(&self, property: &'a Json) -> Vec<Value> {
        let of = self.target(property);
        if of["type"] == "boolean" {
            return vec![Value(Tree::Boolean(false)), Value(Tree::Boolean(true))];
        }
        let forms = ["oneOf", "anyOf"].iter().filter_map(|forms| of[forms].as_array()).flatten();
        let all = of["enum"].as_array().into_iter().flatten();
        let all = all.chain(forms.filter_map(|form| form.get("const")));
        all.filter_map(Json::as_str).map(|word| Value(Tree::Text(word.to_owned()))).collect()
    }

    /// Returns whether a property is a table of keys, rather than one of several forms.
    fn is_plain_table(&self, property: &'a Json) -> bool {
        let of = self.target(property);
        of["properties"].is_object() && of["maxProperties"].is_null()
    }

    /// Returns the alternative of a schema that has the form of what the file writes at a place.
    fn form(&self, of: &'a Json, at: &Place) -> Option<&'a Json> {
        let forms = ["oneOf", "anyOf"].iter().filter_map(|forms| of[forms].as_array()).flatten();
        let (node, document) = (at.node?, self.document);
        let mut forms = forms.map(|form| self.target(form));
        forms.find(|form| match &document.node(node).kind {
            Kind::Table(members) => form["properties"].as_object().is_some_and(|properties| {
                let known = |&of: &NodeId| properties.contains_key(&document.node(of).key);
                members.iter().all(known)
            }),
            Kind::Text(word) => {
                form["properties"].as_object().is_some_and(|known| known.contains_key(word))
            }
            Kind::List(_) => form.get("items").is_some(),
            Kind::Integer(_) | Kind::Float(_) | Kind::Boolean(_) | Kind::Date(_) => false,
        })
    }

    fn target(&self, mut node: &'a Json) -> &'a Json {
        while let Some(to) = node["$ref"].as_str() {
            let Some(target) = self.schema.pointer(&to[1..]) else { break };
            node = target;
        }
        node
    }
}

/// Returns whether a property is a time, or a law or a distribution of times.
fn is_time(property: &Json) -> bool {
    const TIMES: [&str; 7] = [
        "Time",
        "VaryingTime",
        "Decode",
        "StepTime",
        "TimeOrPinSettings",
        "TimeOrLaunchSettings",
        "LongTime",
    ];
    let name = property["$ref"].as_str().and_then(|to| to.rsplit('/').next());
    name.is_some_and(|name| TIMES.contains(&name))
}

/// Returns the value with which the description of a default begins: 1 for `1, one after the other`.
fn value_in(text: &str) -> Option<Value> {
    let end = text.find([',', ';', '(']).unwrap_or(text.len());
    let begins = text[..end].trim();
    let tree = crate::file::parse_value(begins).ok();
    let quantity = || units::number(begins).map(|_| Tree::Text(begins.to_owned()));
    tree.or_else(quantity).map(Value)
}
