# Drives Ruby's Dalli (binary protocol) for tests/e2e/test_clients.py.
#
# One JSON array [operation, argument...] a line on stdin, one JSON object a line on stdout:
# {"result": ...} or {"error": ...}. Keys and values travel as hexadecimal.
require 'dalli'
require 'json'
Dalli.logger.level = Logger::FATAL

CLIENT = Dalli::Client.new(ARGV[0], value_max_bytes: 64 * 1024 * 1024, compress: false)
RAW = { raw: true }.freeze

def bytes(hex)
  [hex].pack('H*')
end

def hex(bytes)
  bytes&.unpack1('H*')
end

# What was stored answers with its CAS number; refusals are 0, false or nil.
def stored(answer)
  answer.is_a?(Integer) && answer != 0
end

OPERATIONS = {
  'get' => ->(key) { hex(CLIENT.get(bytes(key), RAW)) },
  'get_many' => lambda { |keys|
    CLIENT.get_multi(*keys.map { |key| bytes(key) }).to_h { |key, value| [hex(key), hex(value)] }
  },
  'gets' => lambda { |key|
    value, cas = CLIENT.get_cas(bytes(key))
    [hex(value), value && cas.to_s]
  },
  'set' => ->(key, value, ttl) { stored(CLIENT.set(bytes(key), bytes(value), ttl, RAW)) },
  'add' => ->(key, value, ttl) { stored(CLIENT.add(bytes(key), bytes(value), ttl, RAW)) },
  'replace' => lambda { |key, value, ttl|
    stored(CLIENT.replace(bytes(key), bytes(value), ttl, RAW))
  },
  'cas' => lambda { |key, value, token|
    stored(CLIENT.set_cas(bytes(key), bytes(value), token.to_i, 0, RAW))
  },
  'append' => ->(key, value) { CLIENT.append(bytes(key), bytes(value)) == true },
  'prepend' => ->(key, value) { CLIENT.prepend(bytes(key), bytes(value)) == true },
  'incr' => ->(key, delta) { CLIENT.incr(bytes(key), delta.to_i)&.to_s },
  'decr' => ->(key, delta) { CLIENT.decr(bytes(key), delta.to_i)&.to_s },
  'delete' => ->(key) { CLIENT.delete(bytes(key)) == true },
  'touch' => ->(key, ttl) { CLIENT.touch(bytes(key), ttl) == true },
  'gat' => ->(key, ttl) { hex(CLIENT.gat(bytes(key), ttl)) },
  'flush' => -> { CLIENT.flush && nil },
  'stats' => -> { CLIENT.stats.values.first },
  'version' => -> { CLIENT.version.values.first },
  # A quiet block sends the Q opcodes and a noop at its end.
  'set_noreply' => lambda { |key, value|
    CLIENT.multi { CLIENT.set(bytes(key), bytes(value), 0, RAW) } && nil
  },
  'delete_noreply' => ->(key) { CLIENT.multi { CLIENT.delete(bytes(key)) } && nil },
  # A structure goes through Marshal and is marked by a flag.
  'set_typed' => ->(key) { stored(CLIENT.set(bytes(key), { answer: 42, list: [1, 2] })) },
  'check_typed' => ->(key) { CLIENT.get(bytes(key)) == { answer: 42, list: [1, 2] } }
}.freeze

$stdout.sync = true
while (line = $stdin.gets)
  name, *arguments = JSON.parse(line)
  begin
    answer = { result: OPERATIONS.fetch(name).call(*arguments) }
  rescue StandardError => e
    answer = { error: "#{e.class}: #{e.message}" }
  end
  puts JSON.generate(answer)
end
