# papercuts.rb FOLDER URL: what Rails does to the tables of dcounter, and how examples/activerecord keeps it from that
require "stringio"
require "#{ARGV[0]}/shop"
ActiveRecord::Base.establish_connection(ARGV[1])

def dumped
  out = StringIO.new
  ActiveRecord::SchemaDumper.dump(ActiveRecord::Base.connection, out)
  out.string.scan(/create_table "(\w+)"/).flatten.sort.join(" ")
end

puts "schema.rb: #{dumped}"
ActiveRecord::SchemaDumper.ignore_tables = []
puts "without: #{dumped}"

ActiveRecord::Base.cache { 2.times { ActiveRecord::Base.connection.select_value("SELECT dc_incr('views', 'cached')") } }
puts "from the cache: #{View.of('cached')}"
ActiveRecord::Base.cache { 2.times { View.count!("called") } }
puts "called: #{View.of('called')}"
post = Post.create!(title: "by number")
3.times { |i| post.like(i.to_s) }
puts "first: #{Post.with_likes.order('likes_count DESC').first.title}"
