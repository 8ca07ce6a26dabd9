//! The secret of a run, and the challenge by which two processes prove to each other that they know it.
//! Each end chooses a fresh nonce. To prove that it knows the secret, it sends a keyed hash (HMAC-SHA-256, RFC 2104) of its role (the end
//! that connects, or the one that listens), the run, the rank, the purpose of the connection and both nonces. A recorded proof is refused
//! on any other connection, because the nonces differ. This keeps strangers out. It neither encrypts nor protects from somebody who can
//! change packets on their way; nothing secret is sent after it.

use crate::frame;
use hmac::{Hmac, KeyInit, Mac};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use std::fmt;
use std::io::{self, ErrorKind, Read, Write};

/// 32 random bytes that only the processes of a run know.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Secret([u8; 32]);

/// Number of a run, which is not secret.
#[derive(Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Run([u8; 16]);

/// Fresh random bytes of one end of a connection.
#[derive(Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
struct Nonce([u8; 32]);

/// A keyed hash.
#[derive(Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
struct Proof([u8; 32]);

/// Writes bytes as hexadecimal digits.
pub(crate) fn digits(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Reads bytes from exactly as many pairs of hexadecimal digits.
pub(crate) fn bytes<const N: usize>(text: &str) -> Result<[u8; N], String> {
    let wrong = || format!("expected {} hexadecimal digits", 2 * N);
    if text.len() != 2 * N || !text.is_ascii() {
        return Err(wrong());
    }
    let mut all = [0; N];
    for (byte, pair) in all.iter_mut().zip(text.as_bytes().chunks_exact(2)) {
        let pair = std::str::from_utf8(pair).map_err(|_| wrong())?;
        *byte = u8::from_str_radix(pair, 16).map_err(|_| wrong())?;
    }
    Ok(all)
}

fn random<const N: usize>() -> io::Result<[u8; N]> {
    let mut all = [0; N];
    getrandom::fill(&mut all).map_err(|error| io::Error::other(error.to_string()))?;
    Ok(all)
}

macro_rules! as_digits {
    ($($name:ident)*) => {$(
        impl TryFrom<String> for $name {
            type Error = String;

            fn try_from(text: String) -> Result<$name, String> {
                bytes(&text).map($name)
            }
        }

        impl From<$name> for String {
            fn from(of: $name) -> String {
                digits(&of.0)
            }
        }
    )*};
}

as_digits!(Secret Run Nonce Proof);

impl Secret {
    /// Returns a new secret.
    ///
    /// # Errors
    /// If the system has no random numbers.
    pub fn new() -> io::Result<Secret> {
        random().map(Secret)
    }

    /// Returns the proof of the end of a connection that has this role.
    fn proof(&self, role: &str, hello: &Hello, nonce: Nonce) -> Hmac<Sha256> {
        let key = Hmac::<Sha256>::new_from_slice(&self.0);
        // Keys of any length are allowed.
        let mut mac = key.unwrap_or_else(|_| Hmac::<Sha256>::new(&Default::default()));
        for text in [role, &hello.purpose, &hello.version] {
            mac.update(&(text.len() as u64).to_be_bytes());
            mac.update(text.as_bytes());
        }
        mac.update(&hello.rank.to_be_bytes());
        mac.update(&hello.run.0);
        mac.update(&hello.nonce.0);
        mac.update(&nonce.0);
        mac
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret")
    }
}

impl fmt::Debug for Run {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&digits(&self.0))
    }
}

impl Run {
    /// Returns a new number.
    ///
    /// # Errors
    /// If the system has no random numbers.
    pub fn new() -> io::Result<Run> {
        random().map(Run)
    }

    /// Derives the number of a run from its launcher's job, which all ranks know.
    #[must_use]
    pub fn of(job: &str) -> Run {
        let hash = Sha256::digest(job.as_bytes());
        let mut number = [0; 16];
        number.iter_mut().zip(hash).for_each(|(to, from)| *to = from);
        Run(number)
    }
}

/// First frame, from the end that connects.
#[derive(Clone, Serialize, Deserialize)]
struct Hello {
    version: String,
    purpose: String,
    run: Run,
    rank: u32,
    nonce: Nonce,
}

/// Second frame: the other end's nonce and proof.
#[derive(Serialize, Deserialize)]
struct Challenge {
    nonce: Nonce,
    proof: Proof,
}

/// Who connects, and what for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Caller {
    /// Rank of the process.
    pub rank: u32,
    /// Version of the program.
    pub version: String,
    /// What the connection is for.
    pub purpose: String,
}

/// Longest text in a greeting [B].
const MOST_TEXT: usize = 64;

/// Greets the end that listens, as rank `rank`, and proves the secret to it.
///
/// # Errors
/// If the connection fails, or the other end does not know the secret of this run.
pub fn call(
    stream: &mut (impl Read + Write),
    secret: &Secret,
    run: Run,
    caller: &Caller,
) -> io::Result<()> {
    let hello = Hello {
        version: caller.version.clone(),
        purpose: caller.purpose.clone(),
        run,
        rank: caller.rank,
        nonce: Nonce(random()?),
    };
    frame::write(stream, &serde_json::to_vec(&hello)?)?;
    let challenge: Challenge = parse(&frame::read(stream, frame::MOST_BEFORE)?)?;
    let expected = secret.proof("listens", &hello, challenge.nonce);
    expected.verify_slice(&challenge.proof.0).map_err(|_| stranger())?;
    let own = secret.proof("calls", &hello, challenge.nonce).finalize().into_bytes();
    frame::write(stream, &serde_json::to_vec(&Proof(own.into()))?)?;
    // An empty frame says that the proof is accepted.
    frame::read(stream, frame::MOST_BEFORE).map(|_| ())
}

/// Answers an end that connects. Returns who it is, once it has proved that it knows the secret of this run.
///
/// # Errors
/// If the connection fails, or the other end does not know the secret.
pub fn answer(stream: &mut (impl Read + Write), secret: &Secret, run: Run) -> io::Result<Caller> {
    let hello: Hello = parse(&frame::read(stream, frame::MOST_BEFORE)?)?;
    let short = |text: &str| text.len() <= MOST_TEXT && text.chars().all(|c| !c.is_control());
    if hello.run != run || !short(&hello.version) || !short(&hello.purpose) {
        return Err(stranger());
    }
    let nonce = Nonce(random()?);
    let own = secret.proof("listens", &hello, nonce).finalize().into_bytes();
    frame::write(stream, &serde_json::to_vec(&Challenge { nonce, proof: Proof(own.into()) })?)?;
    let proof: Proof = parse(&frame::read(stream, frame::MOST_BEFORE)?)?;
    let expected = secret.proof("calls", &hello, nonce);
    expected.verify_slice(&proof.0).map_err(|_| stranger())?;
    frame::write(stream, b"")?;
    Ok(Caller { rank: hello.rank, version: hello.version, purpose: hello.purpose })
}

fn parse<'a, T: Deserialize<'a>>(content: &'a [u8]) -> io::Result<T> {
    serde_json::from_slice(content).map_err(|error| {
        io::Error::new(ErrorKind::InvalidData, format!("this is no greeting of forebay: {error}"))
    })
}

fn stranger() -> io::Error {
    io::Error::new(ErrorKind::PermissionDenied, "the other end does not belong to this run")
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::VecDeque;
    use std::os::unix::net::UnixStream;
    use std::thread;

    fn caller() -> Caller {
        Caller { rank: 3, version: "0.2.0".into(), purpose: "control".into() }
    }

    /// Lets `calls` and `listens` greet each other; returns what each end finds.
    fn greet(
        calls: (&Secret, Run),
        listens: (&Secret, Run),
    ) -> (io::Result<()>, io::Result<Caller>) {
        let (mut one, mut other) = UnixStream::pair().unwrap();
        thread::scope(|scope| {
            let listening = scope.spawn(move || answer(&mut other, listens.0, listens.1));
            let called = call(&mut one, calls.0, calls.1, &caller());
            drop(one);
            (called, listening.join().unwrap())
        })
    }

    #[test]
    fn ends_with_the_same_secret_recognise_each_other() {
        let (secret, run) = (Secret::new().unwrap(), Run::new().unwrap());
        let (called, answered) = greet((&secret, run), (&secret, run));
        called.unwrap();
        assert_eq!(answered.unwrap(), caller());
        let other = Secret::new().unwrap();
        let (called, answered) = greet((&other, run), (&secret, run));
        assert!(called.is_err() && answered.is_err());
        let (called, answered) = greet((&secret, Run::new().unwrap()), (&secret, run));
        assert!(called.is_err());
        assert_eq!(answered.unwrap_err().kind(), ErrorKind::PermissionDenied);
    }

    /// A connection that plays recorded bytes and forgets what is written to it.
    struct Recording(VecDeque<u8>);

    impl Read for Recording {
        fn read(&mut self, to: &mut [u8]) -> io::Result<usize> {
            self.0.read(to)
        }
    }

    impl Write for Recording {
        fn write(&mut self, from: &[u8]) -> io::Result<usize> {
            Ok(from.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    /// A connection that records what is written to it.
    struct Recorder<'a>(&'a mut UnixStream, Vec<u8>);

    impl Read for Recorder<'_> {
        fn read(&mut self, to: &mut [u8]) -> io::Result<usize> {
            self.0.read(to)
        }
    }

    impl Write for Recorder<'_> {
        fn write(&mut self, from: &[u8]) -> io::Result<usize> {
            self.1.extend(from);
            self.0.write(from)
        }

        fn flush(&mut self) -> io::Result<()> {
            self.0.flush()
        }
    }

    /// System: a stranger records everything that a rank sends in a greeting, and sends it again. Expectation: it is refused, since the
    /// nonce of the other end is another one.
    #[test]
    fn a_replayed_greeting_is_refused() {
        let (secret, run) = (Secret::new().unwrap(), Run::new().unwrap());
        let (mut one, mut other) = UnixStream::pair().unwrap();
        let recorded = thread::scope(|scope| {
            let listening = scope.spawn(|| answer(&mut other, &secret, run));
            let mut recorder = Recorder(&mut one, Vec::new());
            call(&mut recorder, &secret, run, &caller()).unwrap();
            listening.join().unwrap().unwrap();
            recorder.1
        });
        let replayed = answer(&mut Recording(recorded.into()), &secret, run);
        assert_eq!(replayed.unwrap_err().kind(), ErrorKind::PermissionDenied);
    }

    #[test]
    fn secrets_are_never_printed() {
        let secret = Secret::new().unwrap();
        assert_eq!(format!("{secret:?}"), "Secret");
        let text = serde_json::to_string(&secret).unwrap();
        assert_eq!(serde_json::from_str::<Secret>(&text).unwrap(), secret);
        for wrong in ["\"\"", "\"zz\"", "\"é\"", "7"] {
            assert!(serde_json::from_str::<Secret>(wrong).is_err(), "{wrong}");
        }
    }

    /// Greetings made of random bytes, of random changes to a real one, and of random lengths, each of which ends with an error.
    #[test]
    fn a_million_random_greetings_are_refused_without_panic() {
        use rand::{Rng, RngExt, SeedableRng};
        let (secret, run) = (Secret::new().unwrap(), Run::new().unwrap());
        let mut generator = forebay_model::random::Generator::seed_from_u64(58);
        let hello = Hello {
            version: "0.2.0".into(),
            purpose: "control".into(),
            run,
            rank: 1,
            nonce: Nonce([7; 32]),
        };
        let mut real = Vec::new();
        frame::write(&mut real, &serde_json::to_vec(&hello).unwrap()).unwrap();
        frame::write(&mut real, &serde_json::to_vec(&Proof([1; 32])).unwrap()).unwrap();
        for round in 0..1_000_000_u32 {
            let bytes = if round % 2 == 0 {
                let mut bytes = vec![0; generator.random_range(0..64)];
                generator.fill_bytes(&mut bytes);
                bytes
            } else {
                let mut bytes = real.clone();
                for _ in 0..generator.random_range(1..4) {
                    let at = generator.random_range(0..bytes.len());
                    bytes[at] = generator.random();
                }
                bytes.truncate(generator.random_range(0..=bytes.len()));
                bytes
            };
            assert!(answer(&mut Recording(bytes.into()), &secret, run).is_err());
        }
    }
}
