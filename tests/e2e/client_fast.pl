# Drives Perl's Cache::Memcached::Fast for tests/e2e/test_clients.py.
#
# One JSON array [operation, argument...] a line on stdin, one JSON object a line on stdout:
# {"result": ...} or {"error": ...}. Keys and values travel as hexadecimal.
use strict;
use warnings;
use Cache::Memcached::Fast;
use JSON::PP;

my ($address) = @ARGV;
my @settings = (servers => [{address => $address}], utf8 => 0, close_on_error => 1,
                max_size => 64 * 1024 * 1024);
my $client = Cache::Memcached::Fast->new({@settings});
my $silent = Cache::Memcached::Fast->new({@settings, nowait => 1});

sub bytes { pack 'H*', $_[0] }
sub hex_of { defined $_[0] ? unpack('H*', $_[0]) : undef }
sub truth { $_[0] ? JSON::PP::true : JSON::PP::false }
# incr answers '' for NOT_FOUND, undef for an error, and 0E0 for zero.
sub number { defined $_[0] && $_[0] ne '' ? "" . ($_[0] + 0) : undef }

my %operations = (
    get => sub { hex_of($client->get(bytes($_[0]))) },
    get_many => sub {
        my $found = $client->get_multi(map { bytes($_) } @{$_[0]});
        return {map { (hex_of($_) => hex_of($found->{$_})) } keys %$found};
    },
    gets => sub {
        my $found = $client->gets(bytes($_[0]));
        return $found ? [hex_of($found->[1]), "$found->[0]"] : [undef, undef];
    },
    cas => sub { truth($client->cas(bytes($_[0]), $_[2], bytes($_[1]))) },
    incr => sub { number($client->incr(bytes($_[0]), $_[1])) },
    decr => sub { number($client->decr(bytes($_[0]), $_[1])) },
    append => sub { truth($client->append(bytes($_[0]), bytes($_[1]))) },
    prepend => sub { truth($client->prepend(bytes($_[0]), bytes($_[1]))) },
    delete => sub { truth($client->delete(bytes($_[0]))) },
    touch => sub { truth($client->touch(bytes($_[0]), $_[1])) },
    gat => sub { hex_of($client->gat($_[1], bytes($_[0]))) },
    flush => sub { $client->flush_all; return undef },
    version => sub { (values %{$client->server_versions})[0] },
    # In void context nowait sends noreply and goes on; push waits until everything was sent.
    set_noreply => sub { $silent->set(bytes($_[0]), bytes($_[1])); $silent->nowait_push; undef },
    delete_noreply => sub { $silent->delete(bytes($_[0])); $silent->nowait_push; undef },
    # A structure goes through Storable and is marked by a flag.
    set_typed => sub { truth($client->set(bytes($_[0]), {answer => 42, list => [1, 2]})) },
    check_typed => sub {
        my $found = $client->get(bytes($_[0]));
        return truth(ref $found && $found->{answer} == 42 && $found->{list}[1] == 2);
    },
);
for my $store (qw(set add replace)) {
    $operations{$store} = sub { truth($client->$store(bytes($_[0]), bytes($_[1]), $_[2])) };
}

$| = 1;
while (my $line = <STDIN>) {
    my ($name, @arguments) = @{decode_json($line)};
    my $result = eval { $operations{$name}->(@arguments) };
    print encode_json($@ ? {error => "$@"} : {result => $result}), "\n";
}
