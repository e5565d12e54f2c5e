//! Channel binding cannot hold through a proxy that ends TLS itself: the client would bind to the
//! proxy's certificate, and the server compares with its own. So the offer of SCRAM-SHA-256-PLUS is
//! taken out of what the server says first. libpq without TLS would refuse to go on at all where it
//! sees that offer; see `docs/capture-proxy.md` for what works and what does not.
//!
//! Where the proxy has the server's own certificate, the binding holds, and nothing is taken out.
//!
//! Source: PostgreSQL documentation, 54.3.1; `fe-auth.c` (`pg_SASL_init`); RFC 5929, 4.1.

use protocol::backend::tag;

/// AuthenticationSASL's number.
const SASL: [u8; 4] = 10i32.to_be_bytes();
const BOUND: &[u8] = b"SCRAM-SHA-256-PLUS";
/// An answer to a start-up packet is shorter than this.
const HELD_BYTES_MAX: usize = 16 << 10;

/// Watches what a server says until it asks for an authentication.
#[derive(Debug, Default)]
pub(super) struct Offers {
    held: Vec<u8>,
}

/// What to do with what the server has said.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Said {
    /// It has not said enough to tell.
    Wait,
    /// This goes to the client, and all that follows as it is; `removed` where an offer was taken out.
    Pass { bytes: Vec<u8>, removed: bool },
}

impl Offers {
    /// Takes what the server has said next.
    pub(super) fn take(&mut self, bytes: &[u8]) -> Said {
        self.held.extend_from_slice(bytes);
        let mut at = 0;
        while let Some((message, body)) = message(&self.held[at..]) {
            match message[0] {
                tag::NEGOTIATE_PROTOCOL_VERSION | tag::NOTICE_RESPONSE => at += message.len(),
                tag::AUTHENTICATION if body.starts_with(&SASL) => {
                    let others = without_binding(&body[SASL.len()..]);
                    let Some(others) = others else { break };
                    let length = (4 + SASL.len() + others.len()) as u32;
                    let mut bytes = self.held[..at].to_vec();
                    bytes.push(tag::AUTHENTICATION);
                    bytes.extend_from_slice(&length.to_be_bytes());
                    bytes.extend_from_slice(&SASL);
                    bytes.extend_from_slice(&others);
                    bytes.extend_from_slice(&self.held[at + message.len()..]);
                    return Said::Pass {
                        bytes,
                        removed: true,
                    };
                }
                _ => return self.pass(),
            }
        }
        // Only what may still be the question, or stands before it, is worth waiting for.
        let may_be = match self.held.get(at) {
            None => true,
            Some(tag) => [
                tag::AUTHENTICATION,
                tag::NEGOTIATE_PROTOCOL_VERSION,
                tag::NOTICE_RESPONSE,
            ]
            .contains(tag),
        };
        match message(&self.held[at..]) {
            None if may_be && self.held.len() < HELD_BYTES_MAX => Said::Wait,
            _ => self.pass(),
        }
    }

    /// What was said and not passed on, where no more comes.
    pub(super) fn rest(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.held)
    }

    fn pass(&mut self) -> Said {
        Said::Pass {
            bytes: std::mem::take(&mut self.held),
            removed: false,
        }
    }
}

/// The first message of `bytes`, whole, and its body.
fn message(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let length = u32::from_be_bytes(bytes.get(1..5)?.try_into().ok()?) as usize;
    let message = bytes.get(..length.checked_add(1)?)?;
    Some((message, message.get(5..)?))
}

/// A list of mechanisms without the one that binds; `None` where that is not in it, or alone.
fn without_binding(list: &[u8]) -> Option<Vec<u8>> {
    let mut others = Vec::with_capacity(list.len());
    let mut found = false;
    for name in list
        .split(|&byte| byte == 0)
        .filter(|name| !name.is_empty())
    {
        if name == BOUND {
            found = true;
        } else {
            others.extend_from_slice(name);
            others.push(0);
        }
    }
    others.push(0);
    (found && others.len() > 1).then_some(others)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const OFFER: &[u8] = b"R\0\0\0\x2a\0\0\0\x0aSCRAM-SHA-256-PLUS\0SCRAM-SHA-256\0\0";
    const LESS: &[u8] = b"R\0\0\0\x17\0\0\0\x0aSCRAM-SHA-256\0\0";
    const VERSION: &[u8] = b"v\0\0\0\x0c\0\x03\0\0\0\0\0\0";

    fn passed(bytes: &[u8], removed: bool) -> Said {
        Said::Pass {
            bytes: bytes.to_vec(),
            removed,
        }
    }

    #[test]
    fn the_binding_is_taken_out_wherever_the_offer_is_cut() {
        let all = [VERSION, OFFER].concat();
        let less = [VERSION, LESS].concat();
        assert_eq!(Offers::default().take(&all), passed(&less, true));
        for cut in 1..all.len() {
            let mut offers = Offers::default();
            assert_eq!(offers.take(&all[..cut]), Said::Wait, "{cut}");
            assert_eq!(offers.take(&all[cut..]), passed(&less, true), "{cut}");
        }
    }

    proptest! {
        /// Whatever a server says, and however it is cut, no byte is lost or added.
        #[test]
        fn what_is_said_passes_whole(
            said in prop_oneof![
                proptest::collection::vec(any::<u8>(), 0..200),
                proptest::collection::vec(prop_oneof![Just(b'R'), Just(b'N'), Just(0), Just(8)], 0..60),
            ],
            cut in 0usize..200,
        ) {
            let (first, second) = said.split_at(cut.min(said.len()));
            let mut offers = Offers::default();
            let mut out = Vec::new();
            match offers.take(first) {
                Said::Pass { bytes, .. } => {
                    out.extend(bytes);
                    out.extend_from_slice(second);
                }
                Said::Wait => match offers.take(second) {
                    Said::Pass { bytes, .. } => out.extend(bytes),
                    Said::Wait => out.extend(offers.rest()),
                },
            }
            prop_assert_eq!(out, said);
        }
    }

    #[test]
    fn everything_else_passes_as_it_is() {
        let only = b"R\0\0\0\x1c\0\0\0\x0aSCRAM-SHA-256-PLUS\0\0";
        let ok = b"R\0\0\0\x08\0\0\0\0Z\0\0\0\x05I";
        let error = b"E\0\0\0\x0cSFATAL\0\0";
        for said in [
            LESS,
            only,
            ok,
            error,
            b"no protocol at all, and of any length",
        ] {
            assert_eq!(Offers::default().take(said), passed(said, false));
        }
        let mut endless = Offers::default();
        let piece = [b"R\x7f\xff\xff\xff".as_slice(), &[0; 4091]].concat();
        let answers: Vec<Said> = (0..4).map(|_| endless.take(&piece)).collect();
        assert_eq!(answers[..3], [Said::Wait, Said::Wait, Said::Wait]);
        assert_eq!(answers[3], passed(&piece.repeat(4), false));
    }
}
