//! Conditions of `[sweep]`: a key that is swept only where other keys have certain values.

use crate::document::{Document, Kind, NodeId};
use crate::problem::Log;
use crate::value::{Axis, Condition, Value};

/// Reads `when = { "job.loader.pytorch.workers" = [4, 8] }`; `before` are the axes of the lines above.
pub(super) fn read(
    document: &Document,
    when: NodeId,
    before: &[Axis],
    log: &Log,
) -> Option<Vec<Condition>> {
    let Kind::Table(members) = &document.node(when).kind else {
        let remedy = "write `when = { \"job.batch\" = [32] }`: a key that is swept in a line above, and its values";
        log.value(when, "a table is expected", remedy);
        return None;
    };
    if members.is_empty() {
        let remedy = "name a key that is swept in a line above, or leave out `when`";
        log.value(when, "this condition names no key", remedy);
        return None;
    }
    members.iter().map(|&member| condition(document, member, before, log)).collect()
}

fn condition(document: &Document, member: NodeId, before: &[Axis], log: &Log) -> Option<Condition> {
    let key = &document.node(member).key;
    let place = before.iter().enumerate().find_map(|(axis, of)| {
        of.keys.iter().position(|other| other == key).map(|place| (axis, place))
    });
    let Some((axis, place)) = place else {
        let what = format!("`{key}` is not swept in a line above");
        log.key(member, what, "name such a key, as it is written there; ranges that points are drawn from have no lines");
        return None;
    };
    let values: Vec<Value> = match &document.node(member).kind {
        Kind::List(elements) => elements.iter().map(|&one| Value(document.tree(one))).collect(),
        _ => vec![Value(document.tree(member))],
    };
    let swept: Vec<&Value> = before[axis].values.iter().filter_map(|of| of.get(place)).collect();
    if let Some(never) = values.iter().find(|value| !swept.contains(value)) {
        let what = format!("`{key}` never is {never}");
        log.value(member, what, "write values that its line has");
        return None;
    }
    Some(Condition { axis, place, values })
}
