//! Descriptions of submitted systems: what a client host has. Rounds have different forms.

use serde_json::Value;

/// A client host of a system.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct ClientHost {
    /// Hardware threads, if the description says so.
    pub cores: Option<u32>,
    /// Bandwidth of all its data ports together [bit/s], if the description says so.
    pub nic: Option<f64>,
}

/// Reads the description of a system, JSON or YAML; JSON of v1.0 often has commas that only YAML allows.
///
/// # Errors
/// If the text is neither, or describes no client host.
pub fn client_host(text: &str) -> Result<ClientHost, String> {
    let all: Value = serde_saphyr::from_str(text).map_err(|error| {
        let text = error.to_string();
        format!("neither JSON nor YAML: {}", text.lines().next().unwrap_or_default())
    })?;
    let found = of_later(&all).or_else(|| of_first(&all));
    found.filter(|host| *host != ClientHost::default()).ok_or_else(|| {
        "it describes no client host: expected `system_under_test.clients`, or `properties.nodes` with a client".to_owned()
    })
}

/// Returns the client of a description from v2.0 on.
fn of_later(all: &Value) -> Option<ClientHost> {
    let client = all.get("system_under_test")?.get("clients")?.as_array()?.first()?;
    let carries_data = |port: &&Value| {
        let traffic = port.get("traffic").and_then(Value::as_array);
        traffic.is_none_or(|all| all.iter().any(|of| of.as_str() == Some("data")))
    };
    let ports = client.get("networking").and_then(Value::as_array).into_iter().flatten();
    Some(ClientHost {
        cores: client.get("chassis").and_then(|of| whole(of, "cpu_cores")),
        nic: sum(ports.filter(carries_data), "speed", "unit_count"),
    })
}

/// Returns the client of a description of v1.0.
fn of_first(all: &Value) -> Option<ClientHost> {
    let nodes = all.get("properties").unwrap_or(all).get("nodes")?.as_array()?;
    let is_client = |node: &&Value| {
        let name = node.get("node_type_name").and_then(Value::as_str).unwrap_or_default();
        name.to_lowercase().contains("client") || nodes.len() == 1
    };
    let client = nodes.iter().find(is_client)?;
    let cpu = client.get("CPU");
    let of_cpu = |key: &str| cpu.and_then(|cpu| whole(cpu, key));
    let threads = of_cpu("threads_per_socket").or_else(|| of_cpu("cores_per_socket"));
    let ports = client.get("nic_ports").and_then(Value::as_array).into_iter().flatten();
    Some(ClientHost {
        cores: threads.map(|threads| threads.saturating_mul(of_cpu("socket_count").unwrap_or(1))),
        nic: sum(ports, "bitrate", "count_of_this_type"),
    })
}

fn whole(of: &Value, key: &str) -> Option<u32> {
    of.get(key)?.as_u64().and_then(|value| u32::try_from(value).ok()).filter(|value| *value > 0)
}

/// Returns the bandwidth of ports whose bandwidth is under `each` [Gbit/s] and whose number is under `number` [bit/s].
fn sum<'v>(ports: impl Iterator<Item = &'v Value>, each: &str, number: &str) -> Option<f64> {
    let one = |port: &Value| {
        let gigabits = port.get(each)?.as_f64().filter(|of| *of > 0.0 && of.is_finite())?;
        Some(1e9 * gigabits * f64::from(whole(port, number).unwrap_or(1)))
    };
    let all: Vec<f64> = ports.filter_map(one).collect();
    (!all.is_empty()).then(|| all.iter().sum())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clients_of_both_forms_are_read_with_their_data_ports() {
        let first = "{\"properties\": {\"nodes\": [{\"node_type_name\": \"server\"},\n\t{\"node_type_name\": \"client\",\n\
                     \t\"CPU\": {\"socket_count\": 2, \"threads_per_socket\": 96},\n\
                     \t\"nic_ports\": [{\"bitrate\": 200, \"count_of_this_type\": 2}],},]}}";
        assert_eq!(client_host(first), Ok(ClientHost { cores: Some(192), nic: Some(400e9) }));
        let later = "system_under_test:\n  clients:\n  - chassis: {cpu_cores: 128}\n    networking:\n    - {speed: 100, unit_count: 3, \
                     traffic: [data]}\n    - {speed: 100, unit_count: 2, traffic: [management]}\n";
        assert_eq!(client_host(later), Ok(ClientHost { cores: Some(128), nic: Some(300e9) }));
    }

    #[test]
    fn files_that_describe_no_client_are_refused() {
        assert!(client_host("[1").is_err_and(|why| why.contains("neither JSON nor YAML")));
        assert!(client_host("{}").is_err_and(|why| why.contains("no client host")));
        let negative =
            "properties: {nodes: [{node_type_name: client, nic_ports: [{bitrate: -1}]}]}";
        assert!(client_host(negative).is_err_and(|why| why.contains("no client host")));
    }
}
