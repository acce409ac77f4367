# load.rb FOLDER URL PROCESS ROUNDS: what DcExample.pm describes, by examples/activerecord
folder, url, process, rounds = ARGV
require "#{folder}/shop"
ActiveRecord::Base.establish_connection(url)
post = Post.find(1)
new = bought = released = refused = 0
rounds.to_i.times do |i|
  new += 1 if post.like("fan #{i}")
  held = Ticket.hold("last night")
  if held.nil?
    refused += 1
  elsif ((i + process.to_i) % 4).zero?
    Ticket.release(held)
    released += 1
  else
    2.times { Ticket.buy(held, "ruby #{process}") }
    bought += 1
  end
  View.count!("page")
  ChatMessage.create!(channel: "load", author: "ruby #{process}", body: i.to_s)
end
puts "new #{new} bought #{bought} released #{released} refused #{refused}"
