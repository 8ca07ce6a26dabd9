//! Tests of `[prices]`.

use super::*;

const SCENARIO: &str = r#"
name = "priced"
[cluster]
nodes = 2
node = { cores = 4, gpus = 2, power = { idle = "500 W", gpu = "250 W", core = "10 W" } }
network.nic = "10 Gbit/s"
[cluster.group.old]
nodes = 3
node.gpus = 1
[storage.nfs.file-server]
bandwidth = "2 GB/s"
[storage.nvme.local-disk]
bandwidth = "3 GB/s"
capacity = "4 TB"
[storage.rated.file-server]
bandwidth = "1 GB/s"
operations = "2000 /s"
[storage.kept.file-server]
bandwidth = "1 GB/s"
capacity = "6 TB"
[dataset.d]
samples = 1000
sample_size = "1 GB"
[[job]]
name = "j"
dataset = "d"
storage = "nfs"
batch = 8
loader.in-memory = {}
model.step = "10 ms"
[prices]
"#;

/// Returns the problems of the scenario with these prices.
fn refused(prices: &str) -> String {
    wrong(&format!("{SCENARIO}{prices}"))
}

/// Returns what the cluster costs for an hour with these prices, and the sum of all purchases.
fn costs(prices: &str) -> (f64, f64) {
    let file = ScenarioFile::parse("a.toml", format!("{SCENARIO}{prices}")).expect("TOML");
    let scenario = file.resolve(&[]).unwrap_or_else(|problems| panic!("{problems}"));
    let prices = scenario.prices.expect("prices");
    (prices.per_hour(), prices.bought())
}

#[test]
fn each_part_of_the_cluster_is_counted_for_its_price() {
    // System: 5 nodes with 4 cores each, 7 GPUs, one NIC of 10 Gbit/s in each node; 1 TB of data on the server, disks of 4 TB.
    for (prices, hour) in [
        ("node = \"1 EUR/h\"", 5.0),
        ("gpu = \"1 EUR/h\"", 7.0),
        ("core = \"1 EUR/h\"", 20.0),
        ("nic_gbit = \"1 EUR/h\"", 50.0),
        ("rack_unit = \"1 EUR/h\"\nrack_units = 2", 10.0),
        ("kw = \"1 EUR/h\"", 5.0 * 0.54 + 7.0 * 0.25),
        ("storage.nfs.tb = \"1 EUR/h\"", 1.0),
        ("storage.nfs.gb_s = \"1 EUR/h\"", 2.0),
        ("storage.nfs.whole = \"1 EUR/h\"", 1.0),
        ("storage.kept.tb = \"1 EUR/h\"", 6.0),
        ("storage.nvme.tb = \"1 EUR/h\"", 20.0),
        ("storage.nvme.gb_s = \"1 EUR/h\"", 15.0),
        ("storage.nvme.whole = \"1 EUR/h\"", 5.0),
        ("rack_unit = \"1 EUR/h\"\nstorage.nfs.rack_units = 4", 9.0),
        ("rack_unit = \"1 EUR/h\"\nstorage.nvme.rack_units = 1", 10.0),
        ("storage.rated.iops = \"0.01 EUR/h\"", 20.0),
        ("node = \"0 EUR/h\"", 0.0),
        ("other = { a = \"1 EUR/h\", b = \"730 EUR/month\" }", 2.0),
        ("gpu = \"$1 /h\"\ncore = \"$1 /h\"", 27.0),
    ] {
        let (found, bought) = costs(prices);
        assert!((found - hour).abs() < 1e-9 && bought == 0.0, "{prices}: {found}");
    }
}

#[test]
fn purchases_are_spread_over_the_lifetime() {
    let (hour, bought) = costs("node = \"$87600\"\nlifetime = \"2 y\"");
    assert!((hour - 25.0).abs() < 1e-9 && bought == 438_000.0, "{hour} {bought}");
    let (hour, _) = costs("node = \"$35040\"");
    assert!((hour - 5.0).abs() < 1e-9, "four years unless written: {hour}");
}

#[test]
fn prices_that_cannot_be_used_are_refused_with_line_and_remedy() {
    for (prices, words) in [
        ("gpu = \"$1 /h\"\nnode = \"1 EUR/h\"", "write all prices in EUR"),
        ("gpu = \"$1 /h\"\nkwh = \"0.1 EUR\"", "write all prices in $"),
        ("gpu = \"$1 /h\"\nother.x = \"500kr\"", "this price is in kr"),
        ("gpu = 5", "an amount with its currency"),
        ("gpu = \"5 /h\"", "there is no currency"),
        ("gpu = \"$5 /week\"", "write \"/h\", \"/month\" or \"/year\""),
        ("kwh = \"$0.10 /h\"", "text on both sides"),
        ("gpus = \"$5\"", "unknown key `gpus`"),
        ("storage.nsf.tb = \"$5\"", "there is no storage named \"nsf\""),
        ("lifetime = \"4\"", "needs a unit"),
    ] {
        let found = refused(prices);
        assert!(found.contains(words) && found.contains("a.toml:"), "{prices}: {found}");
    }
}

#[test]
fn prices_without_effect_are_refused_with_what_they_need() {
    for (prices, words) in [
        // No job reads from this server, and it has no capacity: 0 TB would cost nothing.
        ("storage.rated.tb = \"$1000 /h\"", "write its `capacity`"),
        ("storage.nfs.iops = \"$1 /h\"", "write its `operations`"),
        ("gpu = \"$1 /h\"\nstorage.nfs.rack_units = 4", "write `prices.rack_unit"),
        ("lifetime = \"4 y\"", "there is no price in `[prices]`"),
        ("", "there is no price in `[prices]`"),
    ] {
        let found = refused(prices);
        assert!(found.contains(words) && found.contains("a.toml:"), "{prices}: {found}");
    }
}

#[test]
fn prices_of_what_the_scenario_does_not_have_are_refused() {
    let without = |key: &str, prices: &str| {
        let text = format!("{SCENARIO}{prices}");
        let file = ScenarioFile::parse("a.toml", text).expect("TOML");
        let unset = Override::parse_unset(key).expect("a key");
        file.resolve(&[unset]).expect_err(prices).to_string()
    };
    let found = without("cluster.network.nic", "nic_gbit = \"$5\"");
    assert!(found.contains("write `cluster.network.nic"), "{found}");
    for prices in ["kwh = \"$0.1\"", "kw = \"$100\""] {
        let found = without("cluster.node.power", prices);
        assert!(found.contains("write `cluster.node.power"), "{found}");
    }
}
