//! Tables as they are met: several versions, mirrors without signs, logs with others' lines.

use super::*;

fn wanted(ranks: Option<u32>, collective: Option<Collective>) -> Wanted {
    Wanted { transport: "t".to_owned(), collective, ranks }
}

fn imported(of: Benchmark, text: &str, ranks: Option<u32>) -> Imported {
    read(of, text, &wanted(ranks, None)).unwrap_or_else(|error| panic!("{error}\n{text}"))
}

/// Collective, ranks, bytes and microseconds of each sample.
fn rows(of: &Imported) -> Vec<(String, f64, f64, f64)> {
    let row = |s: &Sample| {
        let micro = (s.seconds_each() * 1e9).round() / 1e3;
        (s.label("collective").to_owned(), s.setting("ranks"), s.setting("bytes"), micro)
    };
    of.samples.iter().map(row).collect()
}

fn row(collective: &str, ranks: f64, bytes: f64, micro: f64) -> (String, f64, f64, f64) {
    (collective.to_owned(), ranks, bytes, micro)
}

const NCCL: &str = "\
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
fn nccl_tests_give_both_halves_of_each_row() {
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
fn nccl_tests_of_other_versions_and_launchers_are_read() {
    // As mpirun tags it, without signs, with the time of day, and the program named at the end.
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
    // Columns that `-I 1` adds, and labels of srun and of PALS.
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
    // Groups of ranks that run apart.
    let ranks = |from: u32| {
        format!("#  Rank  {from} Group  1 Pid  11 on   a device  4 [0x07] NVIDIA A100\n")
    };
    let groups =
        NCCL.replace("NCCL version 2.29.3+cuda13.1\n", &(ranks(0) + &ranks(1) + &ranks(2)));
    let found = imported(Benchmark::NcclTests, &groups, None);
    assert_eq!(rows(&found), rows(&imported(Benchmark::NcclTests, NCCL, None)));
    // Several programs in one log.
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
fn nccl_tests_of_several_programs_are_kept_apart() {
    let table = |program: &str, bus: &str| {
        format!(
            "# Using devices\n#  Rank  0 Pid 1 on a device 0\n#  Rank  1 Pid 1 on a device 1\n\
             # size count type redop root time algbw busbw #wrong\n\
             1048576 262144 float sum -1 100.0 10.49 {bus} 0\n# Collective test concluded: {program}\n"
        )
    };
    // Older versions say at the end what a table was of.
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
fn nccl_tests_in_json_are_read() {
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
    assert!(error(&text[..100]).contains("it is no JSON"));
    assert!(error("{}").contains("it has no `results`"));
    assert!(error(&text.replace("20.0, \"nwrong", "10.0, \"nwrong")).contains("busbw is 0.500"));
    assert!(error(&text.replace("all_reduce_perf", "x")).contains("give --collective"));
}

const OSU: &str = "\
[a:mpi_rank_0][rdma_param] 2 nodes of one kind

# OSU MPI-CUDA Allreduce Latency Test v7.5
# Datatype: MPI_INT.
# Size       Avg Latency(us)   Min Latency(us)   Max Latency(us)  Iterations   P50 Tail Lat(us)   P99 Tail Lat(us)
4                       5.00              4.00              6.00        1000               5.00               7.00
[a:mpi_rank_0][Performance Warning]: 42 entries were evicted
1048576               400.00            390.00            420.00         100             400.00             430.00

# OSU MPI Allgather Latency Test v5.9
# Size       Avg Latency(us)
1024                   10.00

# OSU MPI Barrier Latency Test v5.9
# Avg Latency(us)
             3.21
# OSU MPI Latency Test v3.1
# Size            Latency (us)
0                         1.50
8                         1.60
# OSU MPI Bandwidth Test v3.1
# Size        Bandwidth (MB/s)
1                         3.10
";

#[test]
fn osu_tables_of_all_versions_are_read_by_their_headers() {
    let expected = [
        row("allreduce", 4.0, 4.0, 6.0),
        row("allreduce", 4.0, 1_048_576.0, 420.0),
        row("allgather", 4.0, 4096.0, 10.0),
    ];
    let collectives = &OSU[..OSU.find("# OSU MPI Latency").expect("a table")];
    for text in [collectives.to_owned(), collectives.replace("# ", "")] {
        let found = imported(Benchmark::Osu, &text, Some(4));
        assert_eq!(rows(&found), expected, "{text}");
        assert_eq!(found.samples[1].operations, 100);
        assert!(found.left_out.iter().any(|what| what.contains("Barrier")), "{:?}", found.left_out);
    }
    let messages =
        imported(Benchmark::Osu, &OSU[OSU.find("# OSU MPI Latency").expect("a table")..], None);
    assert_eq!(rows(&messages), [row("message", 2.0, 0.0, 1.5), row("message", 2.0, 8.0, 1.6)]);
    assert!(messages.left_out[0].contains("Bandwidth"), "{:?}", messages.left_out);
}

const IMB: &str = "\
#    Intel(R) MPI Benchmarks 2021.3, MPI-1 part
#---------------------------------------------------
# Benchmarking PingPong
# #processes = 2
# ( 142 additional processes waiting in MPI_Barrier )
#---------------------------------------------------
       #bytes #repetitions      t[usec]   Mbytes/sec
            0         1000         1.10         0.00
         1024         1000         2.00       512.00

#----------------------------------------------------------------
# Benchmarking Alltoall
# #processes = 16
#----------------------------------------------------------------
       #bytes #repetitions  t_min[usec]  t_max[usec]  t_avg[usec]
            0         1000         0.03         0.04         0.03
         4096          640        11.00        13.00        12.00
# Benchmarking Allreduce
# #processes = 144
       #bytes #repetitions  t_min[usec]  t_max[usec]  t_avg[usec]
    134217728            1    147394.84    161213.00    155283.13
# Benchmarking Barrier
# #processes = 144
 #repetitions  t_min[usec]  t_max[usec]  t_avg[usec]
         1000         8.00         9.00         8.50

# All processes entering MPI_Finalize
";

#[test]
fn imb_tables_count_the_slowest_rank() {
    let found = imported(Benchmark::Imb, IMB, None);
    let expected = [
        row("message", 2.0, 0.0, 1.1),
        row("message", 2.0, 1024.0, 2.0),
        row("all-to-all", 16.0, 65_536.0, 13.0),
        row("allreduce", 144.0, 134_217_728.0, 161_213.0),
    ];
    assert_eq!(rows(&found), expected);
    assert_eq!(found.samples[2].operations, 640);
    assert_eq!(found.left_out, ["rows of no bytes, which move nothing", "the benchmark `Barrier`"]);
}

const DEEPBENCH: &str = "\
 NCCL MPI AllReduce
 Num Ranks: 8
----------------------------------------------------------------------------
    # of floats    bytes transferred    Avg Time (msec)    Max Time (msec)
----------------------------------------------------------------------------
         100000         400000             0.14805             0.15000
       16777216       67108864             13.5000             13.6000
 Ring AllReduce
 Num Ranks: 2
    # of floats    bytes transferred    Time (msec)
         100000         400000                 0.5
";

#[test]
fn deepbench_is_read_from_its_programs_and_from_tables() {
    let found = imported(Benchmark::DeepBench, DEEPBENCH, None);
    let expected = [
        row("allreduce", 8.0, 4e5, 150.0),
        row("allreduce", 8.0, 67_108_864.0, 13_600.0),
        row("allreduce", 2.0, 4e5, 500.0),
    ];
    assert_eq!(rows(&found), expected);
    assert_eq!(
        (found.samples[0].label("algorithm"), found.samples[2].label("algorithm")),
        ("NCCL MPI", "Ring")
    );
    let csv = "# a comment\nmachine,ranks,floats,milliseconds,algorithm\nm,8,100000,0.15,ring\n";
    let found = imported(Benchmark::DeepBench, csv, None);
    assert_eq!(rows(&found), expected[..1]);
    assert_eq!(
        (found.samples[0].label("transport"), found.samples[0].label("algorithm")),
        ("m", "ring")
    );
}

#[test]
fn damaged_rows_are_refused_with_their_line() {
    let refused = |of, text: &str, ranks, words: &str| {
        let error = read(of, text, &wanted(ranks, None)).expect_err(words).to_string();
        assert!(error.contains(words), "{words}: {error}");
    };
    let nccl = |from: &str, to: &str, words: &str| {
        assert!(NCCL.contains(from));
        refused(Benchmark::NcclTests, &NCCL.replace(from, to), None, words);
    };
    nccl(
        "1198.0  112.03  168.05     N/A",
        "1198.0",
        "line 18: the row has 10 columns, its header 13; join",
    );
    nccl(
        "50.00   20.97",
        "NCCL   20.97",
        "line 17: `NCCL` in column 6 is no number; another program's",
    );
    nccl("    50.00  ", "   -50.00  ", "line 17: the time [s] -5.000e-5 is none that can be");
    nccl(
        "31.46",
        "41.94",
        "line 17: busbw is 2.000 of algbw, where `allreduce` of 4 ranks has 1.500",
    );
    nccl(
        "# Collective test starting: all_reduce_perf",
        "#",
        "line 15: nothing before this row says what was timed; give --coll",
    );
    nccl("algbw   busbw  #wrong     time", "bw   time", "line 13: the header has no columns");
    nccl("#       size", "#       bytes", "it has no rows that could be used; check that");
    refused(
        Benchmark::NcclTests,
        NCCL,
        Some(8),
        "line 15: the table is of 4 ranks, not of 8; leave out",
    );
    let osu = |from: &str, to: &str, words: &str| {
        refused(Benchmark::Osu, &OSU.replace(from, to), Some(4), words);
    };
    refused(
        Benchmark::Osu,
        OSU,
        None,
        "line 6: nothing before this row says on how many ranks it ran",
    );
    osu("              6.00        1000", "", "line 6: the row has 5 columns, its header 7");
    osu("420.00         100", "420.00         1.5", "line 8: `1.5` in column 5 is no count");
    osu("420.00", "NaN", "line 8: `NaN` in column 4 is no number");
    let imb = |from: &str, to: &str, words: &str| {
        refused(Benchmark::Imb, &IMB.replace(from, to), None, words);
    };
    imb("= 16", "= many", "line 13: `many` is no number of processes");
    imb("        13.00        12.00", "", "line 17: the row has 3 columns, its header 5");
    imb("134217728  ", "1e99999  ", "line 21: `1e99999` in column 1 is no number");
    let csv = "ranks,floats,milliseconds\n8,100000\n";
    refused(Benchmark::DeepBench, csv, None, "line 2: it is no CSV");
    refused(Benchmark::DeepBench, "ranks,milliseconds\n8,1\n", None, "it has no column `floats`");
    refused(
        Benchmark::DeepBench,
        &csv.replace("8,100000", "8,x,1"),
        None,
        "line 2: `x` in column 2",
    );
    let other = wanted(None, Some(Collective::Reduce));
    let error = read(Benchmark::NcclTests, NCCL, &other).expect_err("another").to_string();
    assert!(error.contains("the table is of `allreduce`, not of `reduce`"), "{error}");
}

#[test]
fn nothing_panics_whatever_is_cut_off_or_missing() {
    let all = [
        (Benchmark::NcclTests, NCCL),
        (Benchmark::Osu, OSU),
        (Benchmark::Imb, IMB),
        (Benchmark::DeepBench, DEEPBENCH),
    ];
    for (of, text) in all {
        for end in 0..text.len() {
            for other in
                [Benchmark::NcclTests, Benchmark::Osu, Benchmark::Imb, Benchmark::DeepBench]
            {
                let _ = read(other, &text[..end], &wanted(Some(4), None));
            }
            let _ = read(of, &text[end..], &wanted(None, Some(Collective::AllGather)));
        }
    }
}
