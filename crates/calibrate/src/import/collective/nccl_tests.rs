//! Tests with nccl-tests of several versions, in text and JSON, alone and within logs.

use super::tests::{imported, row, rows, wanted};
use super::{Benchmark, read};

/// Output of a recent version of nccl-tests.
pub(super) const NCCL: &str = "\
# nccl-tests version 2.19.6 nccl-headers=22907 nccl-library=22907
# Collective test starting: all_reduce_perf
# nThread 1 nGpus 4 minBytes 8 maxBytes 134217728 step: 2(factor) warmup iters: 1 iters: 20
#
# Using devices
#  Rank  0 Group  0 Pid  11 on   a device  0 [0x07] NVIDIA A100
#  Rank  1 Group  0 Pid  11 on   a device  1 [0x0f] NVIDIA A100
NCCL version 2.29.3+cuda13.1
#  Rank  2 Group  0 Pid  11 on   a device  2 [0x47] NVIDIA A100
#  Rank  3 Group  0 Pid  11 on   a device  3 [0x4e] NVIDIA A100
#
#                                                              out-of-place                       in-place
#       size         count      type   redop    root     time   algbw   busbw  #wrong     time   algbw   busbw  #wrong
#        (B)    (elements)                               (us)  (GB/s)  (GB/s)             (us)  (GB/s)  (GB/s)
           8             2     float     sum      -1    12.50    0.00    0.00       0    11.00    0.00    0.00       0
a:11:22 [0] NCCL INFO Channel 00/24 :    0   1   2   3
  1048576        262144     float     sum      -1    50.00   20.97   31.46       0    49.00   21.40   32.10       3
134217728      33554432     float     sum      -1  1.2e+03  111.85  167.77     N/A   1198.0  112.03  168.05     N/A
# Out of bounds values : 0 OK
# Avg bus bandwidth    : 44.0
";

#[test]
fn nccl_tests_rows_give_an_out_of_place_and_an_in_place_sample() {
    let found = imported(Benchmark::NcclTests, NCCL, None);
    let row = |bytes: f64, micro: f64| row("allreduce", 4.0, bytes, micro);
    let expected = [
        row(8.0, 12.5),
        row(8.0, 11.0),
        row(1_048_576.0, 50.0),
        row(1_048_576.0, 49.0),
        row(134_217_728.0, 1200.0),
        row(134_217_728.0, 1198.0),
    ];
    assert_eq!(rows(&found), expected);
    let buffers: Vec<&str> = found.samples.iter().map(|s| s.label("buffers")).collect();
    assert_eq!(buffers[..2], ["out-of-place", "in-place"]);
    let excluded = found.samples.iter().filter_map(|s| s.excluded.as_deref());
    assert_eq!(excluded.collect::<Vec<_>>(), ["3 results were wrong"]);
    assert_eq!(found.samples[0].label("transport"), "t");
}

#[test]
fn nccl_tests_output_of_several_versions_and_launchers_is_parsed() {
    // Labels by mpirun, without `#`, with the time of day, and with the program's name at the end.
    let text = "\
[1,0]<stdout>:  Using devices
[1,0]<stdout>:  Rank  0 Pid  11 on   a device  0 [0x07] V100
[1,0]<stdout>:  Rank  1 Pid  12 on   b device  0 [0x07] V100
[1,0]<stdout>:    size   count    type     time   algbw   busbw  error     time   algbw   busbw  error
[1,0]<stdout>:     (B)  (elements)           (us)  (GB/s)  (GB/s)            (us)  (GB/s)  (GB/s)
[1,0]<stdout>: 1048576  262144   float   100.00   10.49    5.24  0e+00   100.50   10.43    5.22  0e+00 2026-11-22 03:00:00
[1,0]<stdout>: # Collective test concluded: all_gather_perf
";
    let found = imported(Benchmark::NcclTests, text, None);
    assert_eq!(rows(&found)[0], row("allgather", 2.0, 1_048_576.0, 100.0));
    // Columns that `-I 1` adds, and labels by srun and PALS.
    let labelled = NCCL
        .replace("#wrong     time", "#wrong i_min i_max i_p99 i_cv% time")
        .replace("       0    11.00", "  0 1 2 3 4   11.00")
        .replace("       0    49.00", "  0 1 2 3 4   49.00")
        .replace("     N/A   1198.0", "  N/A 1 2 3 4 1198.0");
    for label in ["0: ", "nid001 0: ", "node-1: "] {
        let text: Vec<String> = labelled.lines().map(|line| format!("{label}{line}")).collect();
        let found = imported(Benchmark::NcclTests, &text.join("\n"), None);
        assert_eq!(rows(&found), rows(&imported(Benchmark::NcclTests, NCCL, None)), "{label}");
    }
    // Groups of ranks that run independently.
    let ranks = |from: u32| {
        format!("#  Rank  {from} Group  1 Pid  11 on   a device  4 [0x07] NVIDIA A100\n")
    };
    let groups =
        NCCL.replace("NCCL version 2.29.3+cuda13.1\n", &(ranks(0) + &ranks(1) + &ranks(2)));
    let found = imported(Benchmark::NcclTests, &groups, None);
    assert_eq!(rows(&found), rows(&imported(Benchmark::NcclTests, NCCL, None)));
    // Output of several programs in one log.
    let other = NCCL.replace("all_reduce", "reduce_scatter").replace("31.46", "15.73");
    let other =
        other.replace("32.10", "16.05").replace("167.77", "83.89").replace("168.05", "84.02");
    let found = imported(Benchmark::NcclTests, &format!("{NCCL}{other}"), None);
    assert_eq!(
        (rows(&found)[0].0.as_str(), rows(&found)[6].0.as_str()),
        ("allreduce", "reduce-scatter")
    );
}

#[test]
fn tables_of_several_nccl_tests_in_one_log_are_distinguished() {
    let table = |program: &str, bus: &str| {
        format!(
            "# Using devices\n#  Rank  0 Pid 1 on a device 0\n#  Rank  1 Pid 1 on a device 1\n\
             # size count type redop root time algbw busbw #wrong\n\
             1048576 262144 float sum -1 100.0 10.49 {bus} 0\n# Collective test concluded: {program}\n"
        )
    };
    // Older versions name the program only at the end of its table.
    let old = table("all_reduce_perf", "10.49") + &table("all_gather_perf", "5.24");
    let found = imported(Benchmark::NcclTests, &old, None);
    let names: Vec<String> = rows(&found).into_iter().map(|(name, ..)| name).collect();
    assert_eq!(names, ["allreduce", "allgather"]);
    let unknown = "# Collective test starting: hypercube_perf\n".to_owned();
    let found =
        imported(Benchmark::NcclTests, &(unknown + &table("hypercube_perf", "5.24") + &old), None);
    assert_eq!(rows(&found).len(), 2);
    assert_eq!(found.left_out, ["the table of `hypercube_perf`"]);
}

#[test]
fn json_output_of_nccl_tests_is_parsed() {
    let text = r#"{"version": 1, "args": ["./build/all_reduce_perf", "-g", "2"], "env": ["LAST=all_gather_perf"],
        "devices": [{"rank": 0, "group": 0}, {"rank": 1, "group": 0}, {"rank": 0, "group": 1}],
        "nccl_version": 22907, "config": {"average": "true"},
        "results": [
          {"size": 1048576, "count": 262144, "type": "float", "redop": "sum", "root": "      -1",
           "out_of_place": {"time": 52.43, "alg_bw": 20.0, "bus_bw": 20.0, "nwrong": "0"},
           "in_place": {"time": "nan", "alg_bw": "nan", "bus_bw": "nan"}, "actual_iterations": 20}],
        "average_bus_bandwidth": {"bandwidth": 20.0}}"#;
    let found = imported(Benchmark::NcclTests, text, None);
    assert_eq!(rows(&found), [row("allreduce", 2.0, 1_048_576.0, 52.43)]);
    assert_eq!(found.samples[0].operations, 20);
    assert_eq!(found.left_out, ["halves of rows without a time"]);
    let error = |text: &str| {
        read(Benchmark::NcclTests, text, &wanted(None, None)).expect_err(text).to_string()
    };
    assert!(error(&text[..100]).contains("not JSON"));
    assert!(error("{}").contains("the file has no `results`"));
    assert!(error(&text.replace("20.0, \"nwrong", "10.0, \"nwrong")).contains("busbw is 0.500"));
    assert!(error(&text.replace("all_reduce_perf", "x")).contains("give --collective"));
}

/// Returns the output of nccl-tests before August 2022, on four GPUs, with a deviation for each of the rows.
fn old(kind: &str, deviations: [&str; 3]) -> String {
    let ranks = (0..4).map(|rank| {
        format!("#   Rank  {rank} Pid  10{rank} on  node{} device  0 [0x07] X\n", rank / 2)
    });
    let header = "#       size         count    type   redop     time   algbw   busbw  error     time   algbw   busbw  error\n";
    let sizes = [("1048576", 200, 201), ("4194304", 800, 804), ("8388608", 1600, 1608)];
    let rows = deviations.iter().zip(sizes).map(|(deviation, (size, out, within))| {
        format!("{size} 2 {kind} sum {out} 5.24 7.86 {deviation} {within} 5.22 7.83 0e+00\n")
    });
    let rows: String = rows.collect();
    format!(
        "# Using devices\n{}{header}{rows}# Collective test concluded: all_reduce_perf\n",
        ranks.collect::<String>()
    )
}

#[test]
fn the_error_column_is_a_deviation_before_august_2022_and_a_count_since() {
    // Rounding of sums is no error; more than versions of that time accepted is one.
    for (kind, deviations, wrong) in [
        ("float", ["0e+00", "1e-07", "9e-06"], 0),
        ("float", ["2e-05", "1e-07", "1e+01"], 2),
        ("half", ["1e-02", "1e-04", "0e+00"], 0),
        ("double", ["1e-13", "1e-11", "0e+00"], 1),
        ("int32", ["0e+00", "1e+00", "0e+00"], 1),
        // Counts, under the old header, as some forks have them.
        ("float", ["0", "3", "N/A"], 1),
    ] {
        let found = imported(Benchmark::NcclTests, &old(kind, deviations), None);
        let excluded = found.samples.iter().filter(|sample| sample.excluded.is_some()).count();
        assert_eq!((found.samples.len(), excluded), (6, wrong), "{kind} {deviations:?}");
        let told = found.notes.iter().any(|note| note.contains("largest deviation"));
        assert!(told, "{:?}", found.notes);
        let counted = found.notes.iter().any(|note| note.contains("of 6 samples are not used"));
        assert_eq!(counted, wrong > 0, "{:?}", found.notes);
    }
    let text = old("float", ["2e-05", "0", "0"]).replace("  error", "  #wrong");
    let found = imported(Benchmark::NcclTests, &text, None);
    assert_eq!(found.samples[0].excluded.as_deref(), Some("2e-05 results were wrong"));
    assert!(!found.notes.iter().any(|note| note.contains("deviation")), "{:?}", found.notes);
}

#[test]
fn ranks_of_nccl_tests_are_counted_by_their_numbers() {
    let whole = old("float", ["0e+00"; 3]);
    let line = "#   Rank  2 Pid  102 on  node1 device  0 [0x07] X\n";
    // A log that has a line twice, and one that lost a line.
    let doubled = whole.replace(line, &line.repeat(2));
    assert_eq!(rows(&imported(Benchmark::NcclTests, &doubled, None))[0].1, 4.0);
    let found = imported(Benchmark::NcclTests, &whole.replace(line, ""), None);
    assert_eq!(rows(&found)[0].1, 4.0);
    assert!(found.notes.iter().any(|note| note.contains("lines of 1 of 4 ranks")), "{found:?}");
    // Programs without MPI: each is rank 0 of its own.
    let alone = whole.replace("Rank  2 ", "Rank  0 ").replace("Rank  3 ", "Rank  1 ");
    let error = read(Benchmark::NcclTests, &alone, &wanted(None, None)).expect_err("alone");
    let error = error.to_string();
    assert!(
        error.contains("line 4: two processes are rank 0") && error.contains("MPI=1"),
        "{error}"
    );
    // Two logs one after the other, the second without the line before its ranks.
    let second = whole.replace("# Using devices\n", "").replace("Pid  10", "Pid  20");
    let found = imported(Benchmark::NcclTests, &format!("{whole}{second}"), None);
    assert_eq!(found.samples.len(), 12);
    assert!(rows(&found).iter().all(|row| row.1 == 4.0));
}

#[test]
fn rows_with_a_blank_reduction_are_read() {
    // Some versions leave `redop` blank where nothing is reduced.
    let text = "# Rank 0 Pid 1 on a device 0\n# Rank 1 Pid 1 on a device 1\n\
                # size count type redop root time algbw busbw #wrong time algbw busbw #wrong\n\
                1048576 262144 float         -1 100.0 10.49 5.24 0 101.0 10.38 5.19 N/A\n\
                # Collective test concluded: all_gather_perf\n";
    let found = imported(Benchmark::NcclTests, text, None);
    let row = |micro| row("allgather", 2.0, 1_048_576.0, micro);
    assert_eq!(rows(&found), [row(100.0), row(101.0)]);
}

#[test]
fn rows_whose_size_time_and_bandwidths_contradict_each_other_are_refused() {
    // System: an all-reduce over a slow network, 100 us for 110 kB. Expectation: the printed figures tell the number of ranks
    // and a wrong time although bandwidths have two decimals.
    let table = |ranks: usize, time: &str| {
        let lines: String =
            (0..ranks).map(|rank| format!("# Rank {rank} Pid 1 on a device 0\n")).collect();
        format!(
            "all_reduce_perf\n{lines}# size count type redop root time algbw busbw #wrong\n\
             110000 27500 float sum -1 {time} 1.10 1.65 0\n"
        )
    };
    let text = table(4, "100.0");
    assert_eq!(
        rows(&imported(Benchmark::NcclTests, &text, None)),
        [row("allreduce", 4.0, 110_000.0, 100.0)]
    );
    let error = |text: &str| {
        read(Benchmark::NcclTests, text, &wanted(None, None)).expect_err(text).to_string()
    };
    assert!(error(&table(3, "100.0")).contains("busbw is 1.500 of algbw"));
    assert!(
        error(&table(4, "50.0"))
            .contains("algbw is 1.1 GB/s, where the row's size and time give 2.20")
    );
}

#[test]
fn a_table_of_another_program_does_not_take_the_name_of_the_program_before() {
    let table = "# Using devices\n# Rank 0 Pid 1 on a device 0\n# Rank 1 Pid 1 on a device 1\n\
                 # size count type redop root time algbw busbw #wrong\n\
                 1048576 262144 float sum -1 100.0 10.49 10.49 0\n";
    let text = format!("+ srun ./all_reduce_perf\n{table}{}", table.replace("sum", "none"));
    let error =
        read(Benchmark::NcclTests, &text, &wanted(None, None)).expect_err("a second program");
    assert!(
        error.to_string().contains("line 11: no line before this row names the collective"),
        "{error}"
    );
}

#[test]
fn halves_of_rows_without_a_time_are_left_out() {
    let table = |half: &str| {
        format!(
            "all_reduce_perf\n# Rank 0 Pid 1 on a device 0\n# Rank 1 Pid 1 on a device 1\n\
             # size count type redop root time algbw busbw #wrong time algbw busbw #wrong\n\
             1048576 262144 float sum -1 {half} 100.0 10.49 10.49 0\n"
        )
    };
    for half in ["", "N/A N/A N/A N/A"] {
        let found = imported(Benchmark::NcclTests, &table(half), None);
        assert_eq!(rows(&found), [row("allreduce", 2.0, 1_048_576.0, 100.0)], "{half}");
        assert_eq!(found.samples[0].label("buffers"), "in-place");
        assert_eq!(found.left_out, ["halves of rows without a time"]);
    }
}

#[test]
fn many_headers_are_read_in_time_that_grows_with_their_number() {
    let text = "# size count type time algbw busbw error\n".repeat(1 << 16);
    assert!(read(Benchmark::NcclTests, &text, &wanted(None, None)).is_err());
}

#[test]
fn labels_of_launchers_and_colours_change_nothing_in_nccl_tests() {
    let expected = rows(&imported(Benchmark::NcclTests, NCCL, None));
    for label in [
        "[0] ",
        "[pod/launcher-abcde/launcher] ",
        "2026-11-27T10:00:00.1234567Z ",
        "launcher-1  | ",
        "[rank0]: ",
        "Fri Nov 27 10:00:00 2026[1,0]<stdout>:",
        "\u{1b}[36m[0] \u{1b}[0m",
    ] {
        let text: Vec<String> = NCCL.lines().map(|line| format!("{label}{line}")).collect();
        let found = imported(Benchmark::NcclTests, &text.join("\n"), None);
        assert_eq!(rows(&found), expected, "{label}");
    }
}
