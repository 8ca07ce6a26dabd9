//! Connections between rank 0 and the other ranks: messages in frames, with a sign of life every two seconds.

use crate::frame;
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::io::{self, ErrorKind};
use std::net::TcpStream;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

/// Time between two signs of life.
pub const BEAT: Duration = Duration::from_secs(2);
/// Time without any message after which the other end is lost.
pub const SILENCE: Duration = Duration::from_secs(20);
/// Longest time that a message may take to be sent.
const SENDING: Duration = Duration::from_secs(10);

/// The sending end of a connection, which several threads use.
#[derive(Debug, Clone)]
pub struct Sender(Arc<Mutex<TcpStream>>);

/// The receiving end of a connection.
#[derive(Debug)]
pub struct Receiver(TcpStream);

/// Splits a connection into its ends.
///
/// # Errors
/// If the system refuses a second handle or a time limit.
pub fn split(stream: TcpStream) -> io::Result<(Sender, Receiver)> {
    stream.set_nodelay(true)?;
    stream.set_read_timeout(Some(SILENCE))?;
    stream.set_write_timeout(Some(SENDING))?;
    let other = stream.try_clone()?;
    Ok((Sender(Arc::new(Mutex::new(stream))), Receiver(other)))
}

impl Sender {
    /// Sends a message.
    ///
    /// # Errors
    /// If the connection has ended or takes nothing.
    pub fn send(&self, message: &impl Serialize) -> io::Result<()> {
        let content = serde_json::to_vec(message)?;
        let mut stream = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        frame::write(&mut *stream, &content)
    }

    /// Sends `beat` every two seconds, in a thread of its own, until the connection ends.
    pub fn beat(&self, beat: impl Serialize + Send + 'static) {
        let to = self.clone();
        let beats = move || {
            while to.send(&beat).is_ok() {
                thread::sleep(BEAT);
            }
        };
        // Without this thread the other end gives this one up, and says so.
        thread::Builder::new().name("beat".to_owned()).spawn(beats).ok();
    }

    /// Ends the connection in both directions.
    pub fn close(&self) {
        let stream = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        stream.shutdown(std::net::Shutdown::Both).ok();
    }
}

impl Receiver {
    /// Waits for the next message.
    ///
    /// # Errors
    /// If the connection has ended, nothing came for [`SILENCE`], or what came is no message.
    pub fn message<T: DeserializeOwned>(&mut self) -> io::Result<T> {
        let content = frame::read(&mut self.0, frame::MOST)?;
        let wrong = |error| io::Error::new(ErrorKind::InvalidData, error);
        serde_json::from_slice(&content).map_err(wrong)
    }
}

/// Says in words why a connection has ended.
#[must_use]
pub fn ended(error: &io::Error) -> String {
    match error.kind() {
        ErrorKind::WouldBlock | ErrorKind::TimedOut => {
            format!("nothing was heard of it for {} s", SILENCE.as_secs())
        }
        ErrorKind::UnexpectedEof | ErrorKind::ConnectionReset | ErrorKind::BrokenPipe => {
            "its connection ended: was its process killed?".to_owned()
        }
        _ => error.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::TcpListener;

    #[test]
    fn messages_pass_between_beats_and_the_end_is_said() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let one = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (sender, _kept) = split(one).unwrap();
        let (_other, mut receiver) = split(listener.accept().unwrap().0).unwrap();
        sender.beat("beat");
        sender.send(&"hello").unwrap();
        let two: Vec<String> = (0..2).map(|_| receiver.message().unwrap()).collect();
        assert!(two.contains(&"hello".to_owned()) && two.contains(&"beat".to_owned()), "{two:?}");
        sender.close();
        let error = receiver.message::<String>().unwrap_err();
        assert!(ended(&error).contains("connection ended"), "{error}");
        assert!(sender.send(&"late").is_err());
    }
}
