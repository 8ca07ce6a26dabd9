//! Tests: the JSON Schema agrees with the reader.

use super::*;
use serde_json::Value as Json;

/// Resolves a reference of the schema.
fn target<'s>(schema: &'s Json, node: &'s Json) -> &'s Json {
    match node["$ref"].as_str() {
        Some(reference) => schema.pointer(&reference[1..]).expect("references lead somewhere"),
        None => node,
    }
}

/// Returns the schema of a key, through tables of names, arrays and kinds.
fn find<'s>(schema: &'s Json, node: &'s Json, path: &[&str]) -> Option<&'s Json> {
    let node = target(schema, node);
    let [key, rest @ ..] = path else { return Some(node) };
    if let Some(items) = node.get("items") {
        return find(schema, items, path);
    }
    if let Some(member) = node["properties"].get(*key) {
        return find(schema, member, rest);
    }
    if node["additionalProperties"].is_object() {
        return find(schema, &node["additionalProperties"], rest);
    }
    let kinds = node["oneOf"].as_array().or_else(|| node["anyOf"].as_array())?;
    kinds.iter().find_map(|kind| find(schema, kind, path))
}

#[test]
fn the_scenario_schema_contains_valid_keys_and_no_misspelled_key() {
    let schema = schema();
    for path in [
        "name",
        "run.warm_up",
        "cluster.node.intra.latency",
        "cluster.network.nic",
        "storage.hpctmp.file-server.latency.lognormal.p99",
        "storage.hpctmp.local-disk.operations",
        "storage.hpctmp.memory.bandwidth",
        "dataset.mnist.layout.shards.request",
        "dataset.mnist.layout.webdataset.members",
        "dataset.mnist.layout.parquet.decompress",
        "dataset.mnist.sample_size.empirical.file",
        "job.batch_interval.adaptive.level",
        "job.loader.tf-queue.threads",
        "job.loader.stages.per_sample",
        "job.model.step.per_sample",
        "job.model.jitter.lognormal.cv",
        "job.parallel.pipeline.shares",
        "profile",
        "cluster.node.core_speed",
        "storage.x.local-disk.access",
        "storage.x.local-disk.cpu.per_byte",
        "storage.x.file-server.cpu.fixed",
        "storage.x.measured.throughput",
        "storage.x.local-disk.seek",
        "dataset.x.image.resize",
        "job.hand_off",
        "job.sampler",
        "job.loader.tf-queue.decode.per_pixel",
        "job.loader.stages.per_sample.decode.per_byte",
        "job.model.catalogue",
        "job.model.device.cpu.threads",
        "job.model.step.floor",
        "job.sync.allreduce.transport.tcp.cpu.per_byte",
        "job.sync.allreduce.compression.sparse.ratio",
        "job.sync.parameter-server.server.update",
        "job.sync.elastic-averaging.period",
        "job.accumulation",
        "background.requests.rate",
        "sweep",
    ] {
        let parts: Vec<_> = path.split('.').collect();
        assert!(find(&schema, &schema, &parts).is_some(), "{path}");
    }
    assert!(find(&schema, &schema, &["job", "bach"]).is_none());
}

/// Calls `visit` with every table of the schema.
fn walk(node: &Json, visit: &mut impl FnMut(&serde_json::Map<String, Json>)) {
    match node {
        Json::Object(members) => {
            visit(members);
            members.values().for_each(|member| walk(member, visit));
        }
        Json::Array(elements) => elements.iter().for_each(|element| walk(element, visit)),
        _ => {}
    }
}

#[test]
fn the_schema_refuses_unknown_keys_and_describes_valid_keys() {
    let mut described = 0;
    walk(&schema(), &mut |table| {
        let is_schema = table.get("type").is_some_and(|kind| kind == "object");
        if let (true, Some(Json::Object(properties))) = (is_schema, table.get("properties")) {
            assert_eq!(table.get("additionalProperties"), Some(&Json::Bool(false)), "{table:?}");
            for (key, property) in properties {
                let said = property.get("description").is_some() || property.get("$ref").is_some();
                described += usize::from(said);
                assert!(
                    said || ["every", "size", "stages", "stale"].contains(&key.as_str()),
                    "{key} in {table:?}"
                );
            }
        }
    });
    assert!(described > 50);
}

#[test]
fn schema_entries_of_quantities_have_a_unit_pattern_and_an_example() {
    let schema = schema();
    let nic = find(&schema, &schema, &["cluster", "network", "nic"]).expect("known");
    assert_eq!(nic["examples"], serde_json::json!(["10 Gbit/s"]));
    assert!(nic["pattern"].as_str().is_some_and(|pattern| pattern.contains("Gbit/s")));
    assert!(nic["description"].as_str().is_some_and(|text| text.contains("one of B/s")));
}

#[test]
fn the_schema_requires_exactly_the_tables_without_which_a_scenario_is_refused() {
    // System: a scenario without one of its tables and keys. Expectation: it is refused if the schema says that the table or key is
    // required, and accepted otherwise.
    let schema = schema();
    let required: Vec<&str> =
        schema["required"].as_array().expect("keys").iter().filter_map(Json::as_str).collect();
    let whole: toml::Table = FLETCHER.parse().expect("TOML");
    assert!(whole.contains_key("run") && required.iter().all(|key| whole.contains_key(*key)));
    for key in whole.keys().filter(|key| *key != "sweep") {
        let mut without = whole.clone();
        without.remove(key);
        let refused = wrong(&without.to_string());
        assert_eq!(required.contains(&key.as_str()), !refused.is_empty(), "{key}: {refused}");
    }
}

/// Calls `visit` with a value for each word that the schema allows somewhere, written as if the word had settings, together with
/// everything around it: `job = [{ arrivals = { poisson = "x" } }]`. `around` writes what is around a value.
fn words_with_settings(
    schema: &Json,
    (node, above): (&Json, &[&str]),
    around: &dyn Fn(&str) -> String,
    visit: &mut dyn FnMut(&str, String),
) {
    let mut above = above.to_vec();
    if let Some(reference) = node["$ref"].as_str() {
        if above.contains(&reference) {
            return;
        }
        above.push(reference);
    }
    let node = target(schema, node);
    let words =
        node["enum"].as_array().map_or(&[][..], Vec::as_slice).iter().chain(node.get("const"));
    for word in words.filter_map(Json::as_str) {
        // In quotes: some words are keys with dots.
        visit(word, around(&format!("{{ {word:?} = \"x\" }}")));
    }
    if let Some(items) = node.get("items") {
        let one = |value: &str| around(&format!("[{value}]"));
        words_with_settings(schema, (items, &above), &one, visit);
    }
    for (key, member) in node["properties"].as_object().into_iter().flatten() {
        let inside = |value: &str| around(&format!("{{ {key} = {value} }}"));
        words_with_settings(schema, (member, &above), &inside, visit);
    }
    if node["additionalProperties"].is_object() {
        let named = |value: &str| around(&format!("{{ some = {value} }}"));
        words_with_settings(schema, (&node["additionalProperties"], &above), &named, visit);
    }
    for choices in ["oneOf", "anyOf", "allOf"].iter().filter_map(|of| node[of].as_array()) {
        for choice in choices {
            words_with_settings(schema, (choice, &above), around, visit);
        }
    }
}

#[test]
fn words_that_take_no_settings_refuse_them_everywhere() {
    // System: each word that the schema allows, written as a table with a value that nothing would read. Expectation: one
    // error at this word, with its line, its key and what to write.
    let (schema, mut tried, mut takes_none) = (schema(), 0, 0);
    words_with_settings(&schema, (&schema, &[]), &str::to_owned, &mut |word, text| {
        let text =
            text.strip_prefix("{ ").and_then(|text| text.strip_suffix(" }")).expect("a table");
        // The outermost table is the file.
        let file = format!("# a file\n{text}\n");
        let problems =
            ScenarioFile::parse("x.toml", file.clone()).and_then(|file| file.resolve(&[]));
        let problems = problems.expect_err(&file);
        let unknown = format!("unknown key `{word}`");
        let refused = ["takes no settings", "found a table", &unknown];
        let is_here = |problem: &&Problem| refused.iter().any(|what| problem.what.contains(what));
        let here: Vec<&Problem> = problems.iter().filter(is_here).collect();
        assert_eq!(here.len(), 1, "{file}{problems}");
        assert!(here[0].line == 2 && !here[0].remedy.is_empty(), "{problems}");
        takes_none += usize::from(here[0].remedy.contains(&format!("\"{word}\"")));
        tried += 1;
    });
    assert!(takes_none > 100, "{takes_none} of {tried}");
}
