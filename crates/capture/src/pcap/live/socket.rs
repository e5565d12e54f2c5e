//! The kernel's packet socket, on one interface or all.

use std::ffi::CString;
use std::io;
use std::mem;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

use super::super::file::Packet;
use super::super::link::Link;
use super::filter;

/// Packets that one call of the system brings at most.
const BATCH: usize = 32;

/// Of a packet. Offload makes larger ones on no usual machine; of those the rest counts as cut.
const PACKET_BYTES: usize = 128 << 10;

/// What the kernel keeps while we are busy, where it lets us.
const KERNEL_BYTES: libc::c_int = 64 << 20;

/// How long a call waits for the first packet.
const WAIT_US: libc::suseconds_t = 100_000;

/// Room for the time that the kernel adds, aligned as it wants it.
type Control = [u64; 8];

/// A socket that gives packets from their IP header on.
pub(super) struct PacketSocket {
    descriptor: OwnedFd,
    bytes: Vec<u8>,
    addresses: Vec<libc::sockaddr_ll>,
    control: Vec<Control>,
    /// Of each packet of the last batch: what was captured, its length, its time, its EtherType.
    batch: Vec<(usize, u64, i64, u16)>,
    dropped: u64,
}

impl PacketSocket {
    /// Listens from now on; `any` is all interfaces.
    pub(super) fn open(interface: &str, ports: &[u16]) -> io::Result<Self> {
        let index = match interface {
            "any" => 0,
            name => {
                let name = CString::new(name).map_err(|_| io::ErrorKind::NotFound)?;
                // SAFETY: it reads a string that ends in NUL.
                match unsafe { libc::if_nametoindex(name.as_ptr()) } {
                    0 => return Err(io::ErrorKind::NotFound.into()),
                    index => index as libc::c_int,
                }
            }
        };
        // Of no protocol: nothing comes before the filter is set and the interface chosen.
        // SAFETY: no memory is given.
        let number =
            unsafe { libc::socket(libc::AF_PACKET, libc::SOCK_DGRAM | libc::SOCK_CLOEXEC, 0) };
        if number < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: the descriptor was just made and belongs to nobody else.
        let descriptor = unsafe { OwnedFd::from_raw_fd(number) };
        let socket = PacketSocket {
            descriptor,
            bytes: vec![0; BATCH * PACKET_BYTES],
            // SAFETY: of numbers alone, all of which may be 0.
            addresses: vec![unsafe { mem::zeroed() }; BATCH],
            control: vec![Control::default(); BATCH],
            batch: Vec::with_capacity(BATCH),
            dropped: 0,
        };
        if let Some(mut program) = filter::of_ports(ports) {
            let program = libc::sock_fprog {
                len: program.len() as libc::c_ushort,
                filter: program.as_mut_ptr(),
            };
            socket.set(libc::SOL_SOCKET, libc::SO_ATTACH_FILTER, &program)?;
        }
        let one: libc::c_int = 1;
        socket.set(libc::SOL_SOCKET, libc::SO_TIMESTAMPNS, &one)?;
        let wait = libc::timeval {
            tv_sec: 0,
            tv_usec: WAIT_US,
        };
        socket.set(libc::SOL_SOCKET, libc::SO_RCVTIMEO, &wait)?;
        // Without the right to force it, as much as the system allows.
        if socket
            .set(libc::SOL_SOCKET, libc::SO_RCVBUFFORCE, &KERNEL_BYTES)
            .is_err()
        {
            socket.set(libc::SOL_SOCKET, libc::SO_RCVBUF, &KERNEL_BYTES)?;
        }
        // SAFETY: of numbers alone, all of which may be 0.
        let mut address: libc::sockaddr_ll = unsafe { mem::zeroed() };
        address.sll_family = libc::AF_PACKET as libc::c_ushort;
        address.sll_protocol = (libc::ETH_P_ALL as u16).to_be();
        address.sll_ifindex = index;
        // SAFETY: the address is of the size that is given.
        let bound = unsafe {
            libc::bind(
                socket.descriptor.as_raw_fd(),
                (&raw const address).cast(),
                mem::size_of_val(&address) as libc::socklen_t,
            )
        };
        match bound {
            0 => Ok(socket),
            _ => Err(io::Error::last_os_error()),
        }
    }

    fn set<T>(&self, level: libc::c_int, name: libc::c_int, value: &T) -> io::Result<()> {
        // SAFETY: the value is of the size that is given, and is only read.
        let set = unsafe {
            libc::setsockopt(
                self.descriptor.as_raw_fd(),
                level,
                name,
                std::ptr::from_ref(value).cast(),
                mem::size_of::<T>() as libc::socklen_t,
            )
        };
        match set {
            0 => Ok(()),
            _ => Err(io::Error::last_os_error()),
        }
    }

    /// Waits for packets, a tenth of a second at most, and says how many have come.
    pub(super) fn receive(&mut self) -> io::Result<usize> {
        self.batch.clear();
        let mut pieces: Vec<libc::iovec> = (self.bytes.chunks_exact_mut(PACKET_BYTES))
            .map(|chunk| libc::iovec {
                iov_base: chunk.as_mut_ptr().cast(),
                iov_len: PACKET_BYTES,
            })
            .collect();
        let mut messages: Vec<libc::mmsghdr> = Vec::with_capacity(BATCH);
        for (at, piece) in pieces.iter_mut().enumerate() {
            // SAFETY: of numbers and pointers alone, all of which may be 0.
            let mut message: libc::mmsghdr = unsafe { mem::zeroed() };
            message.msg_hdr.msg_name = (&raw mut self.addresses[at]).cast();
            message.msg_hdr.msg_namelen = mem::size_of::<libc::sockaddr_ll>() as libc::socklen_t;
            message.msg_hdr.msg_iov = piece;
            message.msg_hdr.msg_iovlen = 1;
            message.msg_hdr.msg_control = (&raw mut self.control[at]).cast();
            message.msg_hdr.msg_controllen = mem::size_of::<Control>() as _;
            messages.push(message);
        }
        // SAFETY: each message points to memory of its own of the size that it says, which lives
        // until the call has returned.
        let received = unsafe {
            libc::recvmmsg(
                self.descriptor.as_raw_fd(),
                messages.as_mut_ptr(),
                BATCH as libc::c_uint,
                (libc::MSG_WAITFORONE | libc::MSG_TRUNC) as _,
                std::ptr::null_mut(),
            )
        };
        if received < 0 {
            let error = io::Error::last_os_error();
            return match error.kind() {
                io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted => Ok(0),
                _ => Err(error),
            };
        }
        for (message, address) in messages.iter().zip(&self.addresses).take(received as usize) {
            // What leaves through loopback comes in through it, too.
            let outgoing = address.sll_pkttype == libc::PACKET_OUTGOING;
            let loopback = address.sll_hatype == libc::ARPHRD_LOOPBACK;
            let length = match outgoing && loopback {
                true => usize::MAX,
                false => (message.msg_len as usize).min(PACKET_BYTES),
            };
            self.batch.push((
                length,
                u64::from(message.msg_len),
                time_us(&message.msg_hdr),
                u16::from_be(address.sll_protocol),
            ));
        }
        Ok(received as usize)
    }

    /// The packets that came last.
    pub(super) fn packets(&self) -> impl Iterator<Item = Packet<'_>> {
        let batch = self.batch.iter().zip(self.bytes.chunks_exact(PACKET_BYTES));
        batch.filter_map(|((length, original, at_us, protocol), bytes)| {
            Some(Packet {
                link: Link::Typed(*protocol),
                at_us: *at_us,
                bytes: bytes.get(..*length)?,
                original: *original,
            })
        })
    }

    /// How many packets the kernel had no room for since the beginning.
    pub(super) fn dropped(&mut self) -> io::Result<u64> {
        // Received, dropped.
        let mut counts = [0u32; 2];
        let mut size = mem::size_of_val(&counts) as libc::socklen_t;
        // SAFETY: the kernel writes as many bytes as are said at most.
        let got = unsafe {
            libc::getsockopt(
                self.descriptor.as_raw_fd(),
                libc::SOL_PACKET,
                libc::PACKET_STATISTICS,
                counts.as_mut_ptr().cast(),
                &mut size,
            )
        };
        if got != 0 {
            return Err(io::Error::last_os_error());
        }
        // The kernel begins anew after each answer.
        self.dropped += u64::from(counts[1]);
        Ok(self.dropped)
    }
}

/// When the kernel met a packet, in microseconds since 1970-01-01 UTC; 0 where it does not say.
fn time_us(header: &libc::msghdr) -> i64 {
    // SAFETY: the header is one that the kernel has filled in; these walk within its bounds.
    let mut control = unsafe { libc::CMSG_FIRSTHDR(header) };
    while !control.is_null() {
        // SAFETY: it is not null, and the kernel has written it.
        let (level, kind) = unsafe { ((*control).cmsg_level, (*control).cmsg_type) };
        if level == libc::SOL_SOCKET && kind == libc::SCM_TIMESTAMPNS {
            // SAFETY: of this kind, the kernel has written such a time there.
            let time: libc::timespec =
                unsafe { std::ptr::read_unaligned(libc::CMSG_DATA(control).cast()) };
            return time.tv_sec * 1_000_000 + time.tv_nsec / 1_000;
        }
        // SAFETY: as above.
        control = unsafe { libc::CMSG_NXTHDR(header, control) };
    }
    0
}
