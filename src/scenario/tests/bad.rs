//! Wrong files are refused in words, at the exact place.

use super::*;

#[test]
fn everything_that_is_wrong_is_said_at_once() {
    let text = FLETCHER.replace("cores = 20", "coers = 20").replace("\"2 GB/s\"", "2");
    let text = text.replace("steps = 500 ", "steps = -500").replace("\"2000 s", "\"20 s");
    let text = text.replace("dataset = \"mnist\"", "dataset = \"minst\"");
    let rendered = wrong(&text);
    for expected in [
        "error: run.steps: -500 is out of range\n --> a.toml:5:9\n",
        "error: cluster.node.coers: unknown key `coers`\n  --> a.toml:13:1\n",
        "error: storage.hpctmp.file-server.bandwidth: the number 2 has no unit",
        "error: job.lenet.dataset: there is no dataset named \"minst\"",
        "error: job.lenet.loader.tf-queue.capacity: the last buffer holds 20 samples",
    ] {
        assert!(rendered.contains(expected), "{expected} is not in\n{rendered}");
    }
    assert_eq!(rendered.matches("error:").count(), 5, "{rendered}");
    assert_eq!(rendered.matches("= help:").count(), 5, "{rendered}");
}
